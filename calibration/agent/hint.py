# SPDX-License-Identifier: GPL-2.0-only
"""What a client's hint is worth and costs, on the kept sequences, by the agent's own rule (`asa.decide.told`).

The client says with `high` what each span of a sequence is, as it begins: the truth, or another kind of the same half.
No program was seen before. One lie more than that: it says one thing, whatever is done.
"""

from collections.abc import Sequence

from asa.core.decision import Workload
from asa.core.kinds import INTERACTIVE, Kind
from calibration.agent.adviser import less_pct, right_pct
from calibration.knowledge.courses import Course
from calibration.knowledge.play import SHIPPED, Way, shifted


def gain_pct(courses: Sequence[Course]) -> tuple[float, str]:
    """More ticks right by a client that says the truth, in per cent; and words."""
    before, after = right_pct(courses), right_pct(courses, Way(says=lambda label: label))
    return -less_pct(before, after), f"{before:.1f} % of the ticks right without, {after:.1f} with"


def loss_pct(courses: Sequence[Course]) -> tuple[float, str]:
    """Fewer ticks right by the worst client, in per cent; and words."""
    before = right_pct(courses, SHIPPED)
    lies = {f"{shift} places further": _lie(shift) for shift in range(1, len(INTERACTIVE))}
    lies |= {f"always {kind}": _always(kind) for kind in Kind}
    losses = {name: less_pct(before, right_pct(courses, one)) for name, one in lies.items()}
    worst = max(losses, key=lambda name: losses[name])
    return losses[worst], f"{worst}, of {len(lies)}; mean {sum(losses.values()) / len(losses):.2f}"


def _lie(shift: int) -> Way:
    return Way(says=lambda label: shifted(label, shift))


def _always(kind: Kind) -> Way:
    return Way(says=lambda _: Workload(kind))
