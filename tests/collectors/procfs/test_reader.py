# SPDX-License-Identifier: GPL-2.0-only
"""Parsers of /proc against real file text: exact values, and what is refused."""

import dataclasses
import errno
import os

import proc_tree
import pytest
from proc_tree import refuse

from asa.core.errors import SourceError
from asa.core.sample import ConnectionState, DiskCounters, MemoryState, NetworkCounters, PagingCounters, ProcessState
from collectors.procfs.cpu import CpuCollector
from collectors.procfs.disk import DiskCollector
from collectors.procfs.memory import MemoryCollector, PagingCollector
from collectors.procfs.network import NetworkCollector
from collectors.procfs.process import ProcessCollector
from collectors.procfs.reader import RETRY_READS


def opened(kind, tree):
    collector = kind(tree.proc, tree.sys)
    collector.open()
    return collector


def test_cpu_of_the_laptop(laptop):
    cpu = opened(CpuCollector, laptop).read()["cpu"]
    assert cpu.total == (1862345, 21450, 602311, 30112870, 45120, 0, 30218, 0)
    assert cpu.cores[3] == (3, (459080, 5460, 145210, 7536870, 11040, 0, 2968, 0))
    assert [number for number, _ in cpu.cores] == [0, 1, 2, 3]
    assert (cpu.interrupts, cpu.context_switches, cpu.forks) == (214560123, 401233870, 81234)
    assert (cpu.runnable, cpu.blocked) == (2, 1)
    assert cpu.softirqs == (812345, 30123456, 1234, 4567890, 812349, 12, 345678, 28123456, 6789, 33330247)


def test_a_cpu_taken_offline_vanishes_and_comes_back(laptop):
    collector = opened(CpuCollector, laptop)
    line = b"cpu2 465020 5460 147211 7534870 11049 0 3020 0 203 0\n"
    laptop.edit("stat", line, b"")
    assert [number for number, _ in collector.read()["cpu"].cores] == [0, 1, 3]
    laptop.edit("stat", b"cpu3 ", line + b"cpu3 ")
    assert [number for number, _ in collector.read()["cpu"].cores] == [0, 1, 2, 3]


def test_memory_of_the_laptop(laptop):
    assert opened(MemoryCollector, laptop).read()["memory"] == MemoryState(
        total_bytes=16116432 * 1024,
        free_bytes=2310420 * 1024,
        available_bytes=9120344 * 1024,
        buffers_bytes=412032 * 1024,
        cached_bytes=6210448 * 1024,
        swap_total_bytes=8388604 * 1024,
        swap_free_bytes=7340028 * 1024,
        dirty_bytes=2048 * 1024,
    )


def test_a_kernel_without_available_memory_leaves_it_unknown(laptop):
    laptop.edit("meminfo", b"MemAvailable:    9120344 kB\n", b"")
    memory = opened(MemoryCollector, laptop).read()["memory"]
    assert memory.available_bytes is None
    assert memory.free_bytes == 2310420 * 1024


def test_paging_of_the_laptop(laptop):
    assert opened(PagingCollector, laptop).read()["paging"] == PagingCounters(
        faults=512340998, major_faults=41233, paged_in_kib=18234110, paged_out_kib=40123998
    )


def test_disks_are_whole_physical_ones(laptop):
    # nvme0n1 + sda + sr0; neither partitions, dm, zram and loop, nor the hidden path of the multipath disk
    assert opened(DiskCollector, laptop).read()["disk"] == DiskCounters(
        reads=912340 + 4120,
        read_sectors=61234560 + 401220,
        read_ms=310220 + 8120,
        writes=1201340 + 1200,
        write_sectors=98123400 + 240110,
        write_ms=1890220 + 30110,
        in_flight=3,
        busy_ms=812340 + 20110,
        weighted_ms=2310990 + 38230,
    )


def test_the_virtual_disk_counts(vm):
    line = next(line for line in (vm.proc / "diskstats").read_text().splitlines() if " vda " in line).split()
    disk = opened(DiskCollector, vm).read()["disk"]
    assert (disk.reads, disk.write_sectors, disk.weighted_ms) == (int(line[3]), int(line[9]), int(line[13]))
    assert disk.reads > 0


def test_a_disk_plugged_in_later_counts(laptop):
    collector = opened(DiskCollector, laptop)
    before = collector.read()["disk"].reads
    (laptop.sys / "block/sdb/device").mkdir(parents=True)
    laptop.write("diskstats", (laptop.proc / "diskstats").read_bytes() + b"   8      16 sdb 7 0 56 1 0 0 0 0 0 1 1\n")
    assert collector.read()["disk"].reads == before + 7


def test_a_host_without_block_devices_says_so(laptop):
    laptop.write("diskstats", b"")
    with pytest.raises(SourceError, match="diskstats: empty"):
        opened(DiskCollector, laptop)


def test_network_of_the_laptop(laptop):
    fields = opened(NetworkCollector, laptop).read()
    assert fields["network"] == NetworkCounters(
        received_bytes=81234110 + 9812340112,
        received_packets=401220 + 8123401,
        sent_bytes=81234110 + 812340991,
        sent_packets=401220 + 4012340,
        tcp_in_segments=6012340,
        tcp_out_segments=3910220,
        tcp_retransmitted_segments=8120,
        tcp_active_opens=41220,
        tcp_passive_opens=812,
        tcp_resets=3310 + 1204,
        udp_in_datagrams=1812340,
        udp_out_datagrams=401220,
    )
    # the tables hold 3 + 3 in LISTEN, 1 in SYN_SENT, 1 in FIN_WAIT2; 35 + 1 ESTABLISHED and 1 CLOSE_WAIT are CurrEstab
    assert fields["connections"] == ConnectionState(
        established=37, time_wait=6, orphaned=1, listening=6, other=2, udp_sockets=14
    )


def test_columns_of_snmp_are_found_by_name(laptop):
    laptop.edit("net/snmp", b"Tcp: RtoAlgorithm RtoMin", b"Tcp: NewColumn RtoAlgorithm RtoMin")
    laptop.edit("net/snmp", b"Tcp: 1 200", b"Tcp: 5 1 200")
    assert opened(NetworkCollector, laptop).read()["network"].tcp_in_segments == 6012340


def test_without_snmp_and_sockstat_the_rest_of_the_network_is_there(laptop):
    for name in ("net/snmp", "net/sockstat", "net/sockstat6", "net/tcp", "net/tcp6"):
        (laptop.proc / name).unlink()
    collector = opened(NetworkCollector, laptop)
    fields = collector.read()
    assert fields["network"].received_packets == 401220 + 8123401
    assert fields["network"].tcp_in_segments is None
    assert fields["network"].udp_out_datagrams is None
    assert fields["connections"] is None
    assert set(collector.lacking) == {"net/snmp", "net/sockstat", "net/sockstat6", "net/tcp", "net/tcp6"}


def test_large_socket_tables_are_not_read(laptop):
    laptop.edit("net/sockstat", b"tw 6 ", b"tw 1000 ")
    laptop.write("net/tcp", b"would not be understood\n")
    connections = opened(NetworkCollector, laptop).read()["connections"]
    assert (connections.listening, connections.other, connections.time_wait) == (None, None, 1000)


def test_socket_tables_are_read_again_after_a_minute_of_ticks_and_only_when_something_changed(laptop):
    collector = opened(NetworkCollector, laptop)
    good = (laptop.proc / "net/tcp").read_bytes()
    laptop.write("net/tcp", b"not to be read\n")
    for _ in range(200):  # the same number of unsettled sockets: no reason to look
        assert collector.read()["connections"].listening == 6
    laptop.write("net/tcp", good.replace(b" 02 ", b" 0A ", 1))
    laptop.edit("net/sockstat", b"inuse 41", b"inuse 42")
    assert collector.read()["connections"].listening == 7
    laptop.write("net/tcp", good)
    laptop.edit("net/sockstat", b"inuse 42", b"inuse 43")
    for _ in range(60):  # something changed, but the tables were read within the last minute
        connections = collector.read()["connections"]
        assert (connections.listening, connections.other) == (7, 43 + 4 - 37 - 7)
    assert collector.read()["connections"].listening == 6


def test_more_established_than_in_use_is_unknown_not_negative(laptop):
    laptop.edit("net/sockstat", b"inuse 41", b"inuse 30")
    assert opened(NetworkCollector, laptop).read()["connections"].other is None


def test_processes_and_threads(laptop):
    collector = opened(ProcessCollector, laptop)
    assert collector.read()["process"] == ProcessState(processes=5, threads=1483, runnable_threads=2)
    proc_tree.start(laptop, (5001, 5002, 5003))
    assert collector.read()["process"].processes == 8
    proc_tree.end(laptop, (5001, 5002, 5003, 812))
    assert collector.read()["process"].processes == 4


def test_a_new_folder_in_proc_is_no_process_for_long(laptop):
    collector = opened(ProcessCollector, laptop)
    (laptop.proc / "asound").mkdir()
    counts = [collector.read()["process"].processes for _ in range(100)]
    assert counts[-1] == 5
    assert set(counts) <= {5, 6}


@pytest.mark.parametrize(
    ("kind", "name", "old", "new"),
    [
        (CpuCollector, "stat", b"\nctxt 401233870", b"\nctxt -1"),
        (CpuCollector, "stat", b"\nctxt 401233870", b"\nctxt 4_012"),
        (CpuCollector, "stat", b"\nctxt 401233870", b"\nctxt 18446744073709551616"),
        (CpuCollector, "stat", b"\nctxt 401233870", b"\nctxt " + b"9" * 5000),
        (CpuCollector, "stat", b"\nprocesses ", b"\nprocessen "),
        (CpuCollector, "stat", b"cpu1 ", b"cpu0 "),
        (CpuCollector, "stat", b"cpu3 ", b"cpu99999 "),
        (CpuCollector, "stat", b"cpu1 468034 5410", b"cpu1 468034 x"),
        (CpuCollector, "stat", b"softirq 98123456 812345", b"softirq 98123456"),
        (CpuCollector, "stat", b"\nintr ", b"\nintx "),
        (MemoryCollector, "meminfo", b"MemTotal:       16116432 kB", b"MemTotal:       0 kB"),
        (MemoryCollector, "meminfo", b"MemFree:         2310420 kB", b"MemFree:         2310420 MB"),
        (MemoryCollector, "meminfo", b"SwapFree:        7340028", b"SwapFree: 18446744073709551615"),
        (MemoryCollector, "meminfo", b"\nCached:", b"\nCoched:"),
        (PagingCollector, "vmstat", b"pgfault ", b"pgfualt "),
        (PagingCollector, "vmstat", b"pgfault 512340998", b"pgfault 512 340998"),
        (DiskCollector, "diskstats", b"912340 45120 61234560", b"912340 45120 six"),
        (DiskCollector, "diskstats", b"sda 4120", b"sda 18446744073709551615"),  # fits alone, not in the sum
        (NetworkCollector, "net/dev", b"docker0:", b"docker0"),
        (NetworkCollector, "net/dev", b"Inter-|", b"Intre-|"),
        (ProcessCollector, "loadavg", b"2/1483", b"2:1483"),
        (ProcessCollector, "loadavg", b"2/1483", b"/1483"),
        (ProcessCollector, "loadavg", b"2/1483 81240", b"2/1483"),
    ],
)
def test_garbled_text_fails_one_read_and_names_the_file(laptop, kind, name, old, new):
    collector = opened(kind, laptop)
    good = collector.read()
    text = (laptop.proc / name).read_bytes()
    laptop.edit(name, old, new)
    with pytest.raises(SourceError, match=name.split("/")[-1]) as caught:
        collector.read()
    assert caught.value.source == collector.name
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    laptop.write(name, text)
    assert collector.read() == good


@pytest.mark.parametrize(
    ("name", "old", "new", "unknown"),
    [
        (
            "net/snmp",
            b"InSegs",
            b"InSigs",
            {"tcp_in_segments", "established", "listening", "other"},
        ),
        ("net/snmp", b" 6012340 ", b" 0x12340 ", {"tcp_in_segments", "established"}),
        ("net/snmp", b"\nUdp: 1812340", b"\nUpd: 1812340", {"udp_in_datagrams"}),
        ("net/sockstat", b"TCP: inuse 41 orphan", b"TCP: inuse 41 orphans", {"orphaned", "time_wait", "udp_sockets"}),
        ("net/sockstat6", b"UDP6: inuse", b"UDP6: in use", {"udp_sockets", "listening", "other"}),
        ("net/tcp", b" 05 ", b" FF ", {"listening", "other"}),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_one_unreadable_file_of_the_network_does_not_take_the_rest(laptop, name, old, new, unknown, later):
    collector = NetworkCollector(laptop.proc, laptop.sys)
    if later:
        collector.open()
    text = (laptop.proc / name).read_bytes()
    laptop.edit(name, old, new)
    if not later:
        collector.open()
    read = collector.read()
    figures = {field: value for part in read.values() for field, value in dataclasses.asdict(part).items()}
    if not (later and name == "net/tcp"):  # a table that was walked is not walked again for a while
        assert name in collector.lacking
        assert all(figures[field] is None for field in unknown), figures
    assert figures["received_bytes"] > 0
    assert sum(value is not None for value in figures.values()) >= 7
    laptop.write(name, text)
    collector.read()
    if name != "net/tcp":
        assert collector.lacking == {}


@pytest.mark.parametrize(("gone", "stays"), [("Udp", "tcp_in_segments"), ("Tcp", "udp_in_datagrams")])
def test_one_protocol_that_is_not_told_does_not_take_the_other(laptop, gone, stays):
    laptop.edit("net/snmp", f"\n{gone}: ".encode(), b"\nOther: ")
    collector = NetworkCollector(laptop.proc, laptop.sys)
    collector.open()
    found = dataclasses.asdict(collector.read()["network"])
    told = {field for field, value in found.items() if value is not None and field.startswith(("tcp_", "udp_"))}
    assert stays in told
    assert not any(field.startswith(f"{gone.lower()}_") for field in told)
    assert "net/snmp" in collector.lacking


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EACCES, errno.EIO, errno.ENODEV, errno.EINVAL])
def test_whatever_reading_fails_with_is_a_reason(laptop, monkeypatch, error):
    collector = opened(NetworkCollector, laptop)
    refuse(monkeypatch, laptop.proc / "net/snmp", error)
    read = collector.read()
    assert read["network"].tcp_in_segments is None
    assert read["network"].received_bytes > 0
    assert os.strerror(error).lower() in collector.lacking["net/snmp"]


def test_a_file_that_appears_is_found_after_a_while(laptop):
    text = (laptop.proc / "net/snmp").read_bytes()
    (laptop.proc / "net/snmp").unlink()
    collector = opened(NetworkCollector, laptop)
    laptop.write("net/snmp", text)
    reads = 0
    while collector.read()["network"].tcp_in_segments is None:
        reads += 1
        assert reads <= RETRY_READS
    assert reads > RETRY_READS // 2
    assert collector.lacking == {}


def test_a_line_of_a_disk_that_does_not_count_may_hold_anything(laptop):
    good = opened(DiskCollector, laptop).read()
    laptop.edit("diskstats", b"loop0 812 0 20480 340 0 0 0 0 0 210 340 0 0 0 0 0 0", b"loop0 812")
    assert opened(DiskCollector, laptop).read() == good


def test_a_level_that_is_not_told_in_every_kernel_is_unknown_where_it_is_garbled(laptop):
    laptop.edit("meminfo", b"Dirty:              2048", b"Dirty:        \xff\xfe")
    memory = opened(MemoryCollector, laptop).read()["memory"]
    assert memory.dirty_bytes is None
    assert memory.available_bytes > 0


def test_an_endless_file_is_not_read_to_its_end(laptop):
    laptop.write("stat", b"cpu  " + b"1 " * (1 << 20) + b"\n")
    with pytest.raises(SourceError, match="longer than"):
        opened(CpuCollector, laptop)


def test_text_larger_than_a_piece_is_read_whole(laptop):
    laptop.edit("stat", b"intr 214560123", b"intr 214560123" + b" 0" * 100_000)
    assert opened(CpuCollector, laptop).read()["cpu"].context_switches == 401233870


@pytest.mark.parametrize("kind", [CpuCollector, DiskCollector, NetworkCollector, ProcessCollector])
def test_a_closed_collector_fails_as_a_source(laptop, kind):
    collector = kind(laptop.proc, laptop.sys)
    with pytest.raises(SourceError):
        collector.read()
    collector.open()
    collector.close()
    collector.close()
    with pytest.raises(SourceError):
        collector.read()


def test_a_proc_that_cannot_be_listed_does_not_take_the_threads(laptop, monkeypatch):
    collector = ProcessCollector(laptop.proc, laptop.sys)

    def refuse_listing(folder):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("collectors.procfs.process.os.listdir", refuse_listing)
    collector.open()
    assert collector.read()["process"] == ProcessState(processes=None, threads=1483, runnable_threads=2)
    assert "permission denied" in collector.lacking["process count"]
    monkeypatch.undo()
    assert collector.read()["process"].processes == len(proc_tree.PIDS)
    assert collector.lacking == {}
