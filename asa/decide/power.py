# SPDX-License-Identifier: GPL-2.0-only
"""What feeds the machine, as far as decisions depend on it. Pure; `collectors.power` looks, the policy decides."""

from dataclasses import dataclass

from asa.core.sample import RawSample

_SAVER = "power-saver"  # of power-profiles-daemon and tuned-ppd


def saver_in(sample: RawSample) -> bool | None:
    """Is energy to be saved, by what firmware and CPUs are set to, or by what was chosen in the desktop? None: unknown.

    The desktop's choice counts where the machine cannot carry it out, too.
    """
    chosen = None if sample.hints is None else sample.hints.power_profile
    return sample.battery_saver if sample.battery_saver or chosen is None else chosen == _SAVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """As last known."""

    saver: bool = False  # energy is to be saved
    on_battery: bool = False

    def seen(self, saver: bool | None, on_battery: bool | None) -> "Power":
        """With what a sample says; None: nothing new."""
        return Power(
            saver=self.saver if saver is None else saver,
            on_battery=self.on_battery if on_battery is None else on_battery,
        )

    @property
    def words(self) -> str:
        """To end a sentence about who serves."""
        return " on battery saver" if self.saver else ""
