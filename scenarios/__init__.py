# SPDX-License-Identifier: GPL-2.0-only
"""What plays on a machine while schedulers are compared. There are two kinds:

- The benchmark (`asa lab bench run`, `record --scenario`): applications in `interactive` and `background`, listed in
  `catalogue`, with `standins` for guests. `session` plays one, `runner` a trial of them, `scenario_recorder` records.
- Workloads (`asa lab demo`, `record --campaign`): `workloads`, which `player` plays and `recorder` records. Older, and
  one load at a time: the models' simple classes (cpu, disk, wakeup, …).

`lab` boots guests with a sched_ext kernel.
"""
