# SPDX-License-Identifier: GPL-2.0-only
"""Two samples of one machine, two seconds apart, with everything known; what the tests of rates and metrics compute by.

The growth of each counter is chosen so that a rate is easily checked by hand.
"""

from dataclasses import replace

from asa.core.sample import (
    BurstCounters,
    BusiestProcesses,
    ConnectionState,
    CpuCounters,
    DesktopState,
    DiskCounters,
    FeltCounters,
    FocusCounters,
    GpuCounters,
    GroupUsage,
    MemoryState,
    NetworkCounters,
    PagingCounters,
    PressureCounters,
    ProbeCounters,
    ProcessBursts,
    ProcessState,
    ProcessUsage,
    RawSample,
    RealtimeCounters,
    SchedExtState,
    TimerCounters,
)
from collectors.ebpf.layout import LATENCY_SLOTS, LONG_WAIT_SLOTS, OCTAVE_SLOTS, WAITERS


def slots(size, counts):
    """A histogram with some slots filled."""
    return tuple(counts.get(slot, 0) for slot in range(size))


def grown(counters, **growth):
    """Counters after they grew; a histogram's growth is slot -> count."""
    fields = {}
    for name, by in growth.items():
        old = getattr(counters, name)
        if isinstance(by, dict):
            fields[name] = tuple(count + by.get(slot, 0) for slot, count in enumerate(old))
        else:
            fields[name] = old + by
    return replace(counters, **fields)


def bursts(*processes):
    """Turns of processes: (pid, ns, turns, those that were cut short)."""
    return ProcessBursts(processes=tuple(BurstCounters(*one) for one in processes))


PROBES = ProbeCounters(
    switches=1000,
    involuntary_switches=500,
    wakeups=400,
    migrations=30,
    run_queue_length_sum=2000,
    wakeup_latency_ns=9_000_000,
    wakeup_latency_hist=slots(LATENCY_SLOTS, {0: 5, 1: 7, 40: 9}),
    requeue_latency_ns=8_000_000,
    requeue_latency_hist=slots(LATENCY_SLOTS, {5: 7, 90: 1}),
    burst_ns=7_000_000,
    burst_hist=slots(OCTAVE_SLOTS, {3: 70}),
    sleep_ns=6_000_000,
    sleep_hist=slots(OCTAVE_SLOTS, {27: 3}),
    blocked=10,
    blocked_ns=5_000_000,
    futex_waits=20,
    futex_wait_ns=4_000_000,
    lock_contentions=40,
    lock_wait_ns=3_000_000,
    lock_failures=4,
    forks=50,
    execs=5,
    exits=45,
    block_issued=70,
    block_completed=69,
    block_latency_ns=2_000_000,
    block_latency_hist=slots(LATENCY_SLOTS, {30: 69}),
    interrupts=800,
    interrupt_ns=1_000_000,
    network_interrupts=80,
    network_interrupt_ns=100_000,
    softirqs=(1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    softirq_ns=(10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    connections_opened=6,
    connections_closed=5,
    connections_reset=4,
    retransmits=3,
    packets_sent=100,
    packets_received=200,
    tcp_packets=150,
    udp_packets=50,
    transmits_measured=90,
    transmit_latency_ns=900_000,
    receives_measured=80,
    receive_latency_ns=800_000,
    deliveries_measured=70,
    delivery_latency_ns=700_000,
    long_waits=slots(len(WAITERS) * LONG_WAIT_SLOTS, {0: 3, 20: 1}),
    waiting_ns=(0, 0, 0, 0),
    scanned_ns=5_000_000_000,
    input_keys=12,
    input_motions=34,
)
FELT = FeltCounters(
    flips=500,
    drawn_ns=6_000_000_000,
    drawn_refreshes=360,
    missed_frames=11,
    flip_gaps=(300, 30, 0, 0, 0, 0, 0, 0),
    input_flips=9,
    input_flip_ns=90_000_000,
    sound_underruns=3,
    hung_tasks=2,
    rcu_stalls=1,
)
MIB = 1 << 20


def process(pid, started_ticks, user, system, minor, major, threads, resident):
    """One of the busiest processes."""
    return ProcessUsage(
        pid=pid,
        started_ticks=started_ticks,
        user_ticks=user,
        system_ticks=system,
        minor_faults=minor,
        major_faults=major,
        threads=threads,
        resident_bytes=resident,
    )


DESKTOP = DesktopState(
    source="gnome",
    app="org.gnome.TextEditor",
    window_class="gnome-text-editor",
    title_class="document",
    fullscreen=False,
    overview=False,
    idle_ms=0,
    input_events=100,
    focus=FocusCounters(group="pid:100@5", processes=3, cpu_ns=7 * 10**9, memory_bytes=200),
)

OLD = RawSample(
    monotonic_ns=100_000_000_000,
    wall_ns=0,
    cpu=CpuCounters(
        total=(1000, 100, 500, 8000, 300, 10, 20, 30),
        cores=((0, (500, 50, 250, 4000, 150, 5, 10, 15)), (1, (500, 50, 250, 4000, 150, 5, 10, 15))),
        interrupts=50_000,
        context_switches=70_000,
        forks=900,
        softirqs=(1, 100, 20, 300, 40, 5, 600, 700, 80, 900),
        runnable=1,
        blocked=0,
    ),
    process=ProcessState(processes=200, threads=900, runnable_threads=1),
    memory=MemoryState(
        total_bytes=1000,
        free_bytes=100,
        available_bytes=500,
        buffers_bytes=50,
        cached_bytes=210,
        swap_total_bytes=800,
        swap_free_bytes=600,
        dirty_bytes=20,
    ),
    paging=PagingCounters(faults=1000, major_faults=10, paged_in_kib=500, paged_out_kib=600),
    disk=DiskCounters(
        reads=100,
        read_sectors=2000,
        read_ms=300,
        writes=50,
        write_sectors=4000,
        write_ms=500,
        in_flight=0,
        busy_ms=1000,
        weighted_ms=5000,
    ),
    network=NetworkCounters(
        received_bytes=10_000,
        received_packets=100,
        sent_bytes=20_000,
        sent_packets=200,
        tcp_in_segments=80,
        tcp_out_segments=160,
        tcp_retransmitted_segments=1,
        tcp_active_opens=10,
        tcp_passive_opens=5,
        tcp_resets=2,
        udp_in_datagrams=20,
        udp_out_datagrams=40,
    ),
    connections=ConnectionState(established=5, time_wait=1, orphaned=0, listening=3, other=0, udp_sockets=7),
    pressure=PressureCounters(
        cpu_some_us=1_000_000,
        io_some_us=2_000_000,
        io_full_us=3_000_000,
        memory_some_us=4_000_000,
        memory_full_us=5_000_000,
        irq_full_us=6_000_000,
    ),
    suspended_ns=5_000_000_000,
    sched_ext=SchedExtState(state="enabled", ops="simple", enable_seq=3),
    probes=PROBES,
    felt=FELT,
    desktop=DESKTOP,
    gpu=GpuCounters(processes=1, engine_ns=10**9, memory_bytes=1000, cpu_ns=10**9),
    timer=TimerCounters(late_ns=1_000_000, late_hist=slots(LATENCY_SLOTS, {2: 5, 50: 1})),
    groups=GroupUsage(cpu_us=(("a.service", 100), ("b.scope", 9_000), ("gone.scope", 5), ("again.scope", 50))),
    # the first sample is 10,500 ticks after the boot, the second one 10,700
    process_bursts=bursts((10, 10**9, 500, 400), (30, 2 * 10**9, 100, 0), (300, 10**9, 7, 7)),
    realtime=RealtimeCounters(threads=1, cpu_ns=5 * 10**8),
    busiest=BusiestProcesses(
        processes=(
            process(30, 9000, 400, 200, 50, 1, 1, 20 * MIB),
            process(10, 500, 9000, 1000, 7000, 20, 6, 290 * MIB),
            process(40, 100, 70, 7, 10, 0, 2, MIB),
            process(60, 300, 5, 5, 5, 5, 1, MIB),
        )
    ),
)
# two seconds later: 400 ticks on two cores, core 0 at work all the time, core 1 for half of it
NEW = replace(
    OLD,
    monotonic_ns=102_000_000_000,
    cpu=CpuCounters(
        total=(1200, 120, 540, 8080, 320, 15, 40, 45),
        cores=((0, (620, 60, 290, 4000, 150, 10, 25, 30)), (1, (580, 60, 250, 4080, 170, 5, 15, 15))),
        interrupts=51_000,
        context_switches=78_000,
        forks=910,
        softirqs=(1, 300, 24, 320, 46, 5, 600, 900, 82, 1000),
        runnable=4,
        blocked=2,
    ),
    process=ProcessState(processes=210, threads=950, runnable_threads=3),
    memory=replace(OLD.memory, free_bytes=80, available_bytes=400, cached_bytes=250, dirty_bytes=30),
    paging=PagingCounters(faults=5000, major_faults=14, paged_in_kib=504, paged_out_kib=700),
    disk=DiskCounters(
        reads=140,
        read_sectors=2400,
        read_ms=400,
        writes=60,
        write_sectors=4600,
        write_ms=580,
        in_flight=2,
        busy_ms=1500,
        weighted_ms=8000,
    ),
    network=NetworkCounters(
        received_bytes=12_000,
        received_packets=120,
        sent_bytes=26_000,
        sent_packets=260,
        tcp_in_segments=90,
        tcp_out_segments=210,
        tcp_retransmitted_segments=6,
        tcp_active_opens=13,
        tcp_passive_opens=6,
        tcp_resets=3,
        udp_in_datagrams=30,
        udp_out_datagrams=50,
    ),
    connections=ConnectionState(established=8, time_wait=2, orphaned=1, listening=4, other=3, udp_sockets=9),
    pressure=PressureCounters(
        cpu_some_us=2_000_000,
        io_some_us=2_200_000,
        io_full_us=3_100_000,
        memory_some_us=4_000_000,
        memory_full_us=7_040_000,
        irq_full_us=6_700_000,
    ),
    suspended_ns=5_000_040_000,
    sched_ext=SchedExtState(state="enabled", ops="rusty", enable_seq=4),
    probes=grown(
        PROBES,
        switches=400,
        involuntary_switches=100,
        wakeups=240,
        migrations=8,
        run_queue_length_sum=1000,
        wakeup_latency_ns=35_000,
        wakeup_latency_hist={1: 60, 3: 40},
        requeue_latency_ns=80_000,
        requeue_latency_hist={5: 100},
        burst_ns=400_000,
        burst_hist={1: 60, 3: 40},
        sleep_ns=3_000_000_000,
        sleep_hist={20: 3},
        blocked=10,
        blocked_ns=50_000_000,
        futex_waits=5,
        futex_wait_ns=1_000_000,
        lock_contentions=16,
        lock_wait_ns=32_000,
        lock_failures=2,
        forks=6,
        execs=4,
        exits=2,
        block_issued=22,
        block_completed=20,
        block_latency_ns=6_000_000,
        block_latency_hist={41: 20},
        interrupts=300,
        interrupt_ns=600_000,
        network_interrupts=100,
        network_interrupt_ns=400_000,
        softirqs={2: 10, 3: 20, 7: 70},
        softirq_ns={2: 30_000, 3: 100_000, 7: 70_000},
        connections_opened=8,
        connections_closed=6,
        connections_reset=4,
        retransmits=15,
        packets_sent=200,
        packets_received=300,
        tcp_packets=300,
        udp_packets=100,
        transmits_measured=10,
        transmit_latency_ns=20_000,
        receives_measured=20,
        receive_latency_ns=100_000,
        deliveries_measured=5,
        delivery_latency_ns=200_000,
        long_waits={1: 2, 0: 5, 10: 1},
        waiting_ns={2: 400_000_000, 3: 9_000_000_000},
        scanned_ns=1_000_000_000,
        input_keys=10,
        input_motions=50,
    ),
    felt=grown(
        FELT,
        flips=110,
        drawn_ns=2_000_000_000,
        drawn_refreshes=120,
        missed_frames=20,
        flip_gaps={0: 90, 1: 5, 3: 5},
        input_flips=4,
        input_flip_ns=100_000_000,
        sound_underruns=2,
        hung_tasks=1,
        rcu_stalls=2,
    ),
    desktop=replace(
        DESKTOP,
        fullscreen=True,
        idle_ms=1500,
        input_events=106,
        focus=FocusCounters(group="pid:100@5", processes=4, cpu_ns=8 * 10**9, memory_bytes=250),
    ),
    gpu=GpuCounters(processes=2, engine_ns=4 * 10**9, memory_bytes=3000, cpu_ns=11 * 10**9 // 10),
    timer=TimerCounters(late_ns=1_600_000, late_hist=slots(LATENCY_SLOTS, {2: 5, 20: 10, 50: 3})),
    # one group came, one went, one was made anew by its old name
    groups=GroupUsage(cpu_us=(("a.service", 300_100), ("again.scope", 20), ("b.scope", 109_000), ("new.scope", 10**9))),
    # one did nothing, one began meanwhile, one was found late, one ended
    # 400 turns of 2 ms, 10 of 80 ms, a newcomer's 3,000 of 20 us; one rested
    process_bursts=bursts(
        (10, 18 * 10**8, 900, 440), (30, 28 * 10**8, 110, 9), (300, 10**9, 7, 7), (400, 6 * 10**7, 3000, 0)
    ),
    realtime=RealtimeCounters(threads=3, cpu_ns=6 * 10**8),
    busiest=BusiestProcesses(
        processes=(
            process(10, 500, 9120, 1030, 7290, 30, 8, 300 * MIB),
            process(30, 9000, 440, 210, 550, 1, 1, 20 * MIB),
            process(70, 10600, 20, 5, 1000, 0, 1, 8 * MIB),
            process(50, 9000, 10_000, 10_000, 0, 0, 1, MIB),
            process(40, 100, 70, 7, 10, 0, 2, MIB),
        )
    ),
)
