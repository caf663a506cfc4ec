# SPDX-License-Identifier: GPL-2.0-only
"""Programs as numbers: what makes two processes one program, what does not, and that no name comes out."""

import os
from hashlib import blake2b

import pytest

from asa.core.sample import BusiestProcesses, ProcessUsage
from collectors.procfs.work import Work
from collectors.programs import KEY_BYTES, ProgramCollector

KEY = bytes(range(KEY_BYTES))
SHELL = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-org.gnome.Terminal-4711.scope\n"
S = 10**9


class Host:
    """A /proc of a few processes, and ticks of a second."""

    def __init__(self, proc, key=KEY, names=None):
        self.proc, self.now_ns, self.used = proc, S, {}
        self.collector = ProgramCollector(proc, proc, key, names, now_ns=lambda: self.now_ns)
        self.collector.open()

    def runs(self, pid, file, *, group=SHELL, comm=b"name\n", started=None):
        folder = os.fsencode(self.proc) + b"/%d" % pid
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103  # any bytes
        if file is not None:
            link = folder + b"/exe"
            if os.path.lexists(link):
                os.unlink(link)  # noqa: PTH108  # as above
            os.symlink(file, link)  # noqa: PTH211  # as above
        (self.proc / str(pid) / "cgroup").write_bytes(os.fsencode(group))
        (self.proc / str(pid) / "comm").write_bytes(comm)
        self.used.setdefault((pid, started or pid), 0)

    def tick(self, **ticks):
        """By `p1=50`: so many clock ticks more for process 1."""
        self.now_ns += S
        for name, more in ticks.items():
            key = next(one for one in self.used if one[0] == int(name[1:]))
            self.used[key] += more
        processes = tuple(ProcessUsage(pid, start, used, 0, 0, 0, 1, 0) for (pid, start), used in self.used.items())
        self.collector.follow({"busiest": BusiestProcesses(processes=processes)})
        return {one.program: one.cores for one in self.collector.read()["programs"].programs}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_processes_of_one_file_in_one_unit_are_one_program_with_the_cores_of_all(host):
    host.runs(1, b"/usr/bin/gzip")
    host.runs(2, b"/opt/other/gzip")
    host.runs(3, b"/usr/bin/xz")
    assert host.tick() == {}, "nothing is known before the second look"
    found = host.tick(p1=50, p2=20, p3=5)
    assert sorted(found.values()) == [0.05, 0.7]


def test_two_that_look_at_the_same_list_in_a_tick_are_told_the_same():
    work = Work()
    first, second = ((ProcessUsage(7, 7, used, 0, 0, 0, 1, 0),) for used in (0, 50))
    assert work.cores(first, S) == work.cores(first, S + 1) == {}
    assert work.cores(second, 2 * S) == {(7, 7): 0.5}
    assert work.cores(second, 2 * S + 1) == {(7, 7): 0.5}, "or the second one would be told of a nanosecond"
    third = (ProcessUsage(7, 7, 150, 0, 0, 0, 1, 0),)
    assert work.cores(third, 3 * S) == {(7, 7): 1.0}, "since the look before, by whomever"


def test_one_that_rests_stays_in_the_list_and_one_that_never_worked_is_not_in_it(host):
    host.runs(1, b"/usr/bin/gzip")
    host.runs(2, b"/usr/bin/sleep")
    host.tick()
    (number,) = host.tick(p1=50, p2=4)
    assert host.tick() == {number: 0.0}
    del host.used[(1, 1)]
    assert host.tick() == {}


def test_numbers_of_instances_and_random_parts_do_not_count_but_applications_and_services_do(host):
    host.runs(1, b"/usr/bin/python3", group="0::/system.slice/tuned.service\n")
    host.runs(2, b"/usr/bin/python3", group="0::/system.slice/backup@12.service\n")
    host.runs(3, b"/usr/bin/python3", group="0::/system.slice/backup@13.service\n")
    host.runs(4, b"/usr/bin/python3", group=SHELL)
    host.runs(5, b"/usr/bin/python3", group=SHELL.replace("4711", "12"))
    host.runs(6, b"/usr/bin/python3", group="0::/x/run-r5f3a9c.scope\n")
    host.runs(7, b"/usr/bin/python3", group="0::/x/run-r0b1d2e.scope\n")
    host.tick()
    assert sorted(host.tick(**{f"p{pid}": 10 for pid in range(1, 8)}).values()) == [0.1, 0.2, 0.2, 0.2]


def test_an_update_of_the_file_leaves_the_program_and_another_file_in_the_same_process_is_another_program(host):
    host.runs(1, b"/usr/bin/gzip")
    host.tick()
    first = host.tick(p1=50)
    host.runs(1, b"/usr/bin/gzip (deleted)")
    assert [host.tick(p1=50) for _ in range(20)] == [first] * 20
    host.runs(1, b"/usr/bin/firefox")
    later = [host.tick(p1=50) for _ in range(20)]
    assert later[-1].keys().isdisjoint(first), "it is asked again now and then"


def test_a_hidden_file_has_the_name_of_the_process_in_its_place(host):
    host.runs(1, None, comm=b"postgres\n")
    host.runs(2, None, comm=b"postgres\n")
    host.runs(3, b"/usr/bin/postgres")
    host.tick()
    assert sorted(host.tick(p1=10, p2=10, p3=10).values()) == [0.1, 0.2], "a name may be anybody's"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b") R 1", b"\x1b[2J", b"x" * 200, "д".encode()])
def test_names_of_any_bytes_are_numbers_as_all_others(host, name):
    host.runs(1, b"/tmp/" + name, comm=name[:15] + b"\n", group=f"0::/{os.fsdecode(name)}\n")
    host.tick()
    (number,) = host.tick(p1=50)
    assert 0 <= number < 2**64


def test_nobody_tells_a_name_by_its_number_and_two_users_have_other_numbers(host, tmp_path):
    host.runs(1, b"/usr/bin/gzip")
    host.tick()
    (number,) = host.tick(p1=50)
    others = [Host(tmp_path, key) for key in (bytes(KEY_BYTES), b"", b"")]
    for other in others:
        other.used = dict(host.used)
        other.tick()
    found = {number, *(next(iter(other.tick(p1=50))) for other in others)}
    assert len(found) == 4, "without a key each collector makes its own"
    assert number != int.from_bytes(blake2b(b"gzip", digest_size=8).digest(), "big")


def test_many_new_ones_in_a_tick_are_asked_some_at_a_time_the_busiest_first(host):
    for pid in range(1, 21):
        host.runs(pid, b"/usr/bin/%d" % pid, group="0::/x\n")
    host.tick()
    work = {f"p{pid}": 10 + pid for pid in range(1, 21)}
    sizes = [host.tick(**work) for _ in range(3)]
    assert [len(one) for one in sizes] == [8, 16, 20]
    assert min(sizes[0].values()) == 0.23


def test_processes_that_ended_meanwhile_and_no_list_at_all_are_no_failure(host):
    host.used[(99, 99)] = 0
    host.tick()
    assert len(host.tick(p99=50)) == 1, "all that is known is that it works"
    host.collector.follow({})
    assert host.collector.read() == {}
    host.collector.close()


def test_files_names_are_for_who_asks_for_them_while_their_programs_are_there(tmp_path):
    names = {}
    host = Host(tmp_path, names=names)
    host.runs(1, b"/usr/bin/gzip")
    host.runs(2, None, comm=b"hidden\n")
    host.tick()
    found = host.tick(p1=50, p2=20)
    number = next(one for one, cores in found.items() if cores == 0.5)
    assert names == {number: "gzip"}
    del host.used[(1, 1)]
    host.tick()
    assert names == {}
