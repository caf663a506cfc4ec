# SPDX-License-Identifier: GPL-2.0-only
"""probes.h itself, for what goes through devices: packets, connections, interrupts, block requests, input, screens."""

from collectors.ebpf import layout


def test_a_start_that_is_not_drawn_forgets_an_older_one(machine):
    machine.transmit_queued(77, 6)
    machine.set("packet_mask", (1 << 62) - 1)  # as good as never
    machine.set("random", 1)
    machine.at(2_000_000)
    machine.transmit_queued(77, 17)  # the packet was dropped, its address is used again
    machine.at(2_001_000)
    machine.transmit_started(77)
    assert machine["transmits_measured"] == 0
    assert (machine["packets_sent"], machine["tcp_packets"], machine["udp_packets"]) == (2, 1, 1)


def test_packets_in_and_out(machine):
    machine.transmit_queued(77, 6)
    machine.received(88, 17)
    machine.at(1_004_000)
    machine.transmit_started(77)
    machine.transmit_started(77)  # a second start of the same is not one
    machine.at(1_009_000)
    machine.copied(88)
    machine.copied(88)
    assert (machine["transmits_measured"], machine["transmit_latency_ns"]) == (1, 4_000)
    assert (machine["receives_measured"], machine["receive_latency_ns"]) == (1, 9_000)


def test_delivery_counts_from_the_oldest_unread_data_to_the_read_that_takes_it(machine):
    machine.data_ready(99)
    machine.at(1_002_000)
    machine.data_ready(99)
    machine.receive_returned(99, 2**32 - 11, 0)  # EAGAIN
    machine.receive_returned(99, 10, 2)  # MSG_PEEK
    machine.at(1_005_000)
    machine.receive_returned(99, 10, 0)
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (1, 5_000)
    machine.data_ready(99)
    machine.tcp_state(1, 7, 99)  # closed unread: the next socket there starts afresh
    machine.at(9_000_000)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 1


def test_a_start_that_a_closed_socket_left_is_never_charged_to_the_next_one_there(machine):
    most = layout.DELIVERY_MOST_NS
    machine.data_ready(99)  # a UDP socket, closed unread: nobody tells
    machine.at(1_000_000 + most + 1)
    machine.data_ready(99)
    machine.at(1_000_000 + most + 4_001)
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (1, 4_000)
    machine.data_ready(99)
    machine.at(1_000_000 + 2 * most + 4_002)  # the reader of the next one finds the old start
    machine.receive_returned(99, 10, 0)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 1
    machine.data_ready(99)
    machine.at(1_000_000 + 3 * most + 4_002)
    machine.data_ready(99)  # still the one before
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (2, 4_000 + most)
    machine.data_ready(99)
    machine.set("packet_mask", (1 << 62) - 1)
    machine.set("random", 1)
    machine.at(1_000_000 + 4 * most + 4_003)
    machine.data_ready(99)  # not drawn: the old one goes all the same
    machine.at(1_000_000 + 3 * most + 4_002)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 2


def test_connections(machine):
    for old, new in [(7, 2), (2, 1), (3, 1), (1, 4), (4, 5), (5, 7), (9, 7), (2, 7), (3, 7), (10, 7), (12, 7), (7, 7)]:
        machine.tcp_state(old, new, 1)
    assert (machine["connections_opened"], machine["connections_closed"]) == (2, 2)


def test_interrupts_and_softirqs_by_kind(machine):
    machine.network_irq(38)
    machine.irq_exit(38)  # its entry was before the programs came
    machine.softirq_exit(3)
    for irq, end in ((38, 1_000_400), (9, 1_000_900)):
        machine.irq_entry()
        machine.at(end)
        machine.irq_exit(irq)
    assert (machine["interrupts"], machine["interrupt_ns"]) == (2, 900)
    assert (machine["network_interrupts"], machine["network_interrupt_ns"]) == (1, 400)
    for kind in (3, 9, 10, 2**31):
        machine.at(2_000_000)
        machine.softirq_entry()
        machine.at(2_000_250)
        machine.softirq_exit(kind)
    assert machine.filled("softirqs") == {3: 1, 9: 1}
    assert machine.filled("softirq_ns") == {3: 250, 9: 250}


def test_block_latency_only_where_the_kernel_keeps_account(machine):
    machine.at(5_000_000)
    machine.block_complete(4_000_000)
    machine.block_complete(0)
    assert (machine["block_completed"], machine["block_latency_ns"]) == (2, 1_000_000)
    assert sum(machine["block_latency_hist"]) == 1


def test_input_is_counted_by_class(machine):
    for kind, value in [(1, 1), (1, 0), (1, 2), (2, 2**32 - 3), (3, 40), (0, 0), (4, 4), (17, 1)]:
        machine.input(kind, value)
    assert (machine["input_keys"], machine["input_motions"]) == (1, 2)


FRAME_NS = 16_666_667


def show(machine, gaps, *, crtc=0, seq=1000):
    """A picture, and others so many refreshes of 60 Hz after each other; the last one's refresh."""
    machine.flip(crtc, seq)
    for gap in gaps:
        seq += gap
        machine.at(machine.now() + gap * FRAME_NS)
        machine.flip(crtc, seq)
    return seq


def test_pictures_are_missed_against_the_interval_that_was_usual(machine):
    show(machine, [1] * 30 + [2] + [1] * 10 + [4] + [1] * 5)
    drawn = 30 + 1 + 10 + 1 + 5 - 8  # eight intervals show first that something is drawn
    assert machine["flips"] == 48
    assert machine["missed_frames"] == 1 + 3
    assert machine["flip_gaps"] == [drawn - 2, 1, 0, 1, 0, 0, 0, 0]
    assert machine["drawn_refreshes"] == drawn + 1 + 3
    assert machine["drawn_ns"] == (drawn + 4) * FRAME_NS


def test_a_film_at_its_own_rate_misses_nothing_and_a_late_picture_of_it_does(machine):
    seq = show(machine, [2, 3] * 20)  # 24 a second at 60 Hz
    assert machine["missed_frames"] == 0
    machine.at(machine.now() + 5 * FRAME_NS)
    machine.flip(0, seq + 5)
    assert machine["missed_frames"] == 2


def test_nothing_is_missed_while_nothing_is_drawn(machine):
    show(machine, [30] * 20)  # a clock that blinks
    assert (machine["flips"], machine["drawn_refreshes"], machine["missed_frames"]) == (21, 0, 0)
    show(machine, [1] * 8 + [7] + [1] * 7 + [3], seq=90_000)  # short animations, and pauses between them
    assert machine["missed_frames"] == 0


def test_a_program_that_becomes_slower_for_good_misses_some_and_then_none(machine):
    show(machine, [1] * 20 + [2] * 30)
    assert machine["missed_frames"] == 4  # until most of the last eight are as slow


def test_one_picture_a_refresh_and_none_of_drivers_that_do_not_count(machine):
    machine.flip(0, 0)
    for _ in range(3):
        machine.flip(0, 77)
    assert machine["flips"] == 1


def test_screens_of_two_devices_with_one_number_are_kept_apart(machine):
    for at in range(40):
        machine.at(1_000_000 + at * FRAME_NS)
        machine.flip(0, 500 + at)
        machine.flip(0, 900_000 + at)
        machine.flip(1, 500 + 2 * at)
    assert machine["flips"] == 120
    assert machine["flip_gaps"] == [2 * 31, 31, 0, 0, 0, 0, 0, 0]
    assert machine["missed_frames"] == 0


def test_refreshes_are_counted_on_over_the_end_of_their_number(machine):
    show(machine, [1] * 20 + [3], seq=2**32 - 10)
    # refresh 0 is taken for a driver's that does not count
    assert (machine["missed_frames"], machine["flip_gaps"][:3]) == (1 + 2, [10, 1, 1])


def test_a_press_counts_to_the_next_picture_once(machine):
    machine.input(1, 1)
    machine.at(4_000_000)
    machine.input(1, 1)  # the first one waits longer
    machine.input(1, 0)
    machine.at(9_000_000)
    machine.flip(0, 10)
    machine.at(12_000_000)
    machine.flip(0, 11)
    assert (machine["input_flips"], machine["input_flip_ns"]) == (1, 8_000_000)


def test_a_press_that_the_screen_does_not_answer_counts_nothing(machine):
    machine.input(1, 1)
    machine.at(1_000_000 + layout.INPUT_MOST_NS + 1)
    machine.flip(0, 10)
    assert machine["input_flips"] == 0
    machine.input(1, 1)
    machine.at(machine.now() + layout.INPUT_MOST_NS + 1)
    machine.input(1, 1)  # takes the place of the one that came to nothing
    machine.at(machine.now() + 1_000)
    machine.flip(0, 11)
    assert (machine["input_flips"], machine["input_flip_ns"]) == (1, 1_000)
