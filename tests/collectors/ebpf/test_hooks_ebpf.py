# SPDX-License-Identifier: GPL-2.0-only
"""What the programs are told of a machine, out of trees of real file text."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.errors import SourceError
from collectors.ebpf import hooks, layout

STATUS = "Name:\tasa\nCapInh:\t0000000000000000\nCapPrm:\t{0}\nCapEff:\t{0}\nCapBnd:\t000001ffffffffff\n"
INTERRUPTS = """           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 31:          0       2773 PCI-MSIX-0000:00:01.0   3-edge      virtio0-stats
 38:          0     115210 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 44:      90000          0  IR-PCI-MSI 2621440-edge      enp3s0-TxRx-0
 45:          5          0  IO-APIC  16-fasteoi   ehci_hcd:usb1, eth7
 46:          5          0  IO-APIC  17-fasteoi   eth70
NMI:          0          0   Non-maskable interrupts
LOC:    4310670    4501099   Local timer interrupts
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("text", "cpus"), [("0-3\n", 4), ("0\n", 1), ("0,2-7\n", 8), ("0-127\n", 128)])
def test_possible_cpus(tmp_path, text, cpus):
    write(tmp_path / "devices/system/cpu/possible", text)
    assert hooks.possible_cpus(tmp_path) == cpus


@pytest.mark.parametrize("text", ["", "\n", "x\n", "0-\n", "0-²\n", "0-99999999\n"])
def test_a_strange_list_of_cpus_is_an_error(tmp_path, text):
    write(tmp_path / "devices/system/cpu/possible", text)
    with pytest.raises(SourceError, match="not understood"):
        hooks.possible_cpus(tmp_path)


@pytest.mark.parametrize(
    ("pid_max", "slots"),
    [("301", layout.FEWEST_TASKS), ("32768", 32768), ("32769", 65536), ("4194304", layout.MOST_TASKS)],
)
def test_task_slots_follow_pid_max_within_bounds(tmp_path, pid_max, slots):
    write(tmp_path / "sys/kernel/pid_max", f"{pid_max}\n")
    assert hooks.task_slots(tmp_path) == slots


@given(text=st.text(max_size=30))
def test_any_pid_max_gives_a_power_of_two_or_an_error(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("proc")
    write(root / "sys/kernel/pid_max", text)
    try:
        slots = hooks.task_slots(root)
    except SourceError:
        return
    assert slots & (slots - 1) == 0
    assert layout.FEWEST_TASKS <= slots <= layout.MOST_TASKS


@pytest.mark.parametrize(
    ("effective", "missing"),
    [
        ("000001ffffffffff", ()),
        ("0000000000200000", ()),  # CAP_SYS_ADMIN, as before 5.8
        ("000000c000000000", ()),  # CAP_PERFMON and CAP_BPF
        ("0000008000000000", ("CAP_PERFMON",)),
        ("0000000000000000", ("CAP_BPF", "CAP_PERFMON")),
    ],
)
def test_missing_capabilities(tmp_path, effective, missing):
    write(tmp_path / "self/status", STATUS.format(effective))
    assert hooks.missing_capabilities(tmp_path) == missing


def test_unreadable_facts_are_errors_with_their_path(tmp_path):
    for ask in (hooks.possible_cpus, hooks.task_slots, hooks.missing_capabilities):
        with pytest.raises(SourceError, match=str(tmp_path)):
            ask(tmp_path)
    write(tmp_path / "self/status", "Name:\tasa\n")
    with pytest.raises(SourceError, match="CapEff"):
        hooks.missing_capabilities(tmp_path)


@pytest.mark.parametrize(
    ("text", "mode"),
    [("none [integrity] confidentiality\n", "integrity"), ("[none] integrity confidentiality\n", "none"), ("", "")],
)
def test_lockdown(tmp_path, text, mode):
    assert hooks.lockdown(tmp_path) == ""
    write(tmp_path / "kernel/security/lockdown", text)
    assert hooks.lockdown(tmp_path) == mode


def interface(sys, name, device, *, msi=(), irq=None):
    folder = sys / "devices" / device
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder.parent if folder.name.startswith("virtio") else folder
    for number in msi:
        write(holder / "msi_irqs" / str(number), "msix\n")
    if irq is not None:
        write(holder / "irq", f"{irq}\n")
    (sys / "class/net" / name).mkdir(parents=True)
    (sys / "class/net" / name / "device").symlink_to(folder)


def test_network_irqs_from_sysfs(tmp_path):
    interface(tmp_path, "eth0", "pci0000:00/0000:00:03.0/virtio2", msi=(37, 38, 39))
    interface(tmp_path, "enp3s0", "pci0000:00/0000:03:00.0", msi=(50, 51), irq=11)
    interface(tmp_path, "eth1", "pci0000:00/0000:04:00.0", irq=19)
    interface(tmp_path, "usb0", "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0")
    write(tmp_path / "devices/pci0000:00/0000:00:14.0/msi_irqs/60", "msi\n")  # the USB controller's, shared by all
    (tmp_path / "class/net/lo").mkdir()
    assert hooks.network_irqs(tmp_path / "proc", tmp_path) == {37, 38, 39, 50, 51, 19}


def test_network_irqs_by_the_names_of_their_handlers(tmp_path):
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    write(proc / "interrupts", INTERRUPTS)
    interface(sys, "eth0", "platform/mmio/virtio2")
    interface(sys, "enp3s0", "platform/nic")
    interface(sys, "eth7", "platform/nic7")
    assert hooks.network_irqs(proc, sys) == {38, 44, 45}


def test_no_interfaces_no_irqs(tmp_path):
    assert hooks.network_irqs(tmp_path, tmp_path) == frozenset()


def test_a_folder_that_may_not_be_looked_into_is_no_error():
    if os.geteuid() != 0:
        assert "CI" not in os.environ
        pytest.skip("becomes another user: sudo makes it run")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to others already
        root = Path(name)
        root.chmod(0o755)
        interface(root, "eth0", "pci0000:00/0000:04:00.0", irq=19)
        (root / "devices").chmod(0o700)
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                (root / "class/net/eth0/device").exists()
            assert hooks.network_irqs(root / "proc", root) == frozenset()
        finally:
            os.seteuid(0)


@given(text=st.text(max_size=200))
def test_any_interrupts_file_is_survived(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("irqs")
    interface(root / "sys", "eth0", "platform/nic")
    write(root / "proc/interrupts", text)
    assert all(irq >= 0 for irq in hooks.network_irqs(root / "proc", root / "sys"))


def test_futex_calls():
    assert hooks.futex_calls("x86_64") == (202, 449, 455)
    assert hooks.futex_calls("aarch64") == (98, 449, 455)
    assert hooks.futex_calls("riscv64") is None
