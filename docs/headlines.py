# SPDX-License-Identifier: GPL-2.0-only
"""The headline figures of docs/oracle.md from its rounds: python docs/headlines.py docs/oracle/rounds.parquet."""

import sys
from collections.abc import Callable

import pandas as pd

rounds = pd.read_parquet(sys.argv[1])
rounds = rounds[(rounds.scheduler != "eevdf") & rounds.score.notna() & rounds.own_score.notna()].copy()
rounds["gain"] = 200 * (rounds.score - rounds.own_score) / (rounds.score + rounds.own_score)

# halves: every other seed of a scheduler that has several in this cell, else every other round
who = ["machine", "label", "scheduler"]
by_seed = rounds.groupby(who).seed.rank("dense").astype(int)
by_round = rounds.groupby(who)["round"].rank("dense").astype(int)
rounds["half"] = by_seed.where(rounds.groupby(who).seed.transform("nunique") > 1, by_round) % 2
halves = rounds.pivot_table(index=["machine", "label"], columns=["half", "scheduler"], values="gain")


def choice(group: pd.DataFrame) -> str | None:
    """Who has the best mean of those that played in all of a group; None (EEVDF) where none is above 0."""
    means = group.dropna(axis=1).mean()
    return means.idxmax() if len(means) and means.max() > 0 else None


def gains(key: Callable[[tuple[str, str]], object]) -> pd.Series:
    """Of each cell: chosen by one half, judged by the other, both ways."""
    found = []
    for choosing, judging in ((1, 0), (0, 1)):
        by, of = halves[choosing], halves[judging]
        shared = by.where(of.notna().reindex(columns=by.columns, fill_value=False))
        names = {cell: name for _, group in shared.groupby(key) for name in [choice(group)] for cell in group.index}
        found.append(pd.Series({cell: of.loc[cell, name] if name else 0.0 for cell, name in names.items()}))
    return pd.concat(found, axis=1).mean(axis=1)


oracle, table, single = (gains(key) for key in (lambda cell: cell, lambda cell: cell[1], lambda _: 0))
mean = lambda found: found.groupby(level=1).mean().mean()  # noqa: E731  # over scenarios
print(f"oracle_gain_pct {mean(oracle):.4f}")
print(f"oracle_over_best_static_pct {mean(oracle - single):.4f}")
print(f"table_share_of_oracle_pct {100 * mean(table) / mean(oracle):.4f}")
