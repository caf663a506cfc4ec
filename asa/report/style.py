# SPDX-License-Identifier: GPL-2.0-only
"""Colours and style sheet of the report's page: light and dark, and narrow screens. Data only."""

from collections.abc import Iterable, Sequence

_CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#a6a600", "#7a5230")
_CLASSES_DARK = ("#4aa8e0", "#f0b840", "#33c79c", "#e0a0c6", "#8ccdf5", "#f08040", "#b39bd6", "#d0d040", "#b98a62")
_SCHEDULERS = ("#3b5b92", "#b0413e", "#4f8a5b", "#c28a2c", "#6d4c8d", "#2f8f9d", "#a0527f", "#6b6b2f", "#845ec2")
_SCHEDULERS_DARK = ("#86a5e0", "#ef8a86", "#8fce9b", "#e6bd70", "#b795d9", "#77cfdc", "#dc95bd", "#b9b970", "#c0a5f0")
_LIGHT = {
    "ink": "#1c1c1e",
    "soft": "#5b5b60",
    "paper": "#ffffff",
    "card": "#f5f5f7",
    "rule": "#d8d8dc",
    "none": "#c9c9ce",
    "eevdf": "#8e8e93",
    "good": "#1a7f4b",
    "bad": "#c0262d",
    "l0": "#0072b2",
    "l1": "#d55e00",
    "l2": "#8c6bb1",
}
_DARK = {
    "ink": "#ececf0",
    "soft": "#a5a5ad",
    "paper": "#161618",
    "card": "#222226",
    "rule": "#3b3b40",
    "none": "#4b4b52",
    "eevdf": "#85858d",
    "good": "#4cc38a",
    "bad": "#ff7b78",
    "l0": "#4aa8e0",
    "l1": "#f08040",
    "l2": "#b39bd6",
}
_RULES = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1rem;font:16px/1.45 system-ui,sans-serif;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .3rem}
p{margin:.4rem 0}.soft,small,summary small{color:var(--soft)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:1rem 0}
.tile{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}
.tile b{display:block;font-size:1.3rem;font-weight:600}
.wide{overflow-x:auto}.long{max-height:24rem;overflow-y:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem;overflow-wrap:normal}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--rule);vertical-align:top}
th{font-weight:600;color:var(--soft);white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.t{white-space:nowrap}td.words{min-width:14rem}
svg{display:block;width:100%}
.strip{height:2.4rem;background:var(--card)}.curve{height:4rem;background:var(--card)}.marks{height:.9rem}
.cell{width:9rem;height:.9rem}
.bar{height:.8rem}
.row{display:grid;grid-template-columns:9rem 1fr 8.5rem;gap:.6rem;align-items:center;font-size:.875rem;margin:.2rem 0}
.row>:last-child{text-align:right;font-variant-numeric:tabular-nums}
.label{font-size:.75rem;color:var(--soft);margin-top:.4rem}
.axis{display:flex;justify-content:space-between;font-size:.75rem;color:var(--soft)}
.numbers{position:relative;height:1rem;font-size:.7rem;color:var(--soft)}
.numbers span{position:absolute;transform:translateX(-50%)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.8rem;margin:.3rem 0}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:.15em;margin-right:.35em}
.good{color:var(--good)}.bad{color:var(--bad)}
details{border-top:1px solid var(--rule);padding:.4rem 0}summary{cursor:pointer;font-weight:600}
path,rect,line{vector-effect:non-scaling-stroke}
.stroke{fill:none;stroke-width:1.5}
.mark{stroke:var(--ink);stroke-width:1.5}.mark.bad{stroke:var(--bad);stroke-width:2}
.grid{stroke:var(--rule);stroke-width:1}
@media(max-width:36rem){body{padding:.7rem}.row{grid-template-columns:6.5rem 1fr 6.5rem}td.t{white-space:normal}}
@media print{details:not([open])>*{display:block}}
"""


def _variables(values: dict[str, str], classes: Sequence[str], schedulers: Sequence[str]) -> str:
    names = [(f"c{number}", colour) for number, colour in enumerate(classes)]
    names += [(f"s{number}", colour) for number, colour in enumerate(schedulers)]
    return "".join(f"--{name}:{colour};" for name, colour in [*values.items(), *names])


def sheet() -> str:
    """The style sheet."""
    light = _variables(_LIGHT, _CLASSES, _SCHEDULERS)
    dark = _variables(_DARK, _CLASSES_DARK, _SCHEDULERS_DARK)
    return f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"


def colours(workloads: Iterable[str], schedulers: Iterable[str], plain: Iterable[str], eevdf: str) -> dict[str, str]:
    """Name -> CSS colour; the most used first. What is `plain`, and the tenth and later ones, is grey."""
    found = dict.fromkeys((*workloads, *schedulers), "var(--none)")
    for letter, names, count in (("c", workloads, len(_CLASSES)), ("s", schedulers, len(_SCHEDULERS))):
        free = iter(range(count))
        for name in names:
            if name == eevdf:
                found[name] = "var(--eevdf)"
            elif name not in plain and (number := next(free, None)) is not None:
                found[name] = f"var(--{letter}{number})"
    return found
