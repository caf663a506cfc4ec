# SPDX-License-Identifier: GPL-2.0-only
"""A folder of a portfolio with one scheduler and one policy of it that was tuned, as texts."""

from pathlib import Path

MANIFEST = """
schedulers:
  - {name: eevdf, source: {kind: kernel}, purpose: rest, ops: null, help: null, paper: true}
  - name: scx_one
    source: {kind: crate, crate: scx_one, version: 1.0.0}
    purpose: first
    ops: one
    help: [--help]
    paper: true
    knobs: {numbers: {--loud: {unit: x, low: 1, high: 9, default: 1}}}
"""
_TUNED = """{id: scx_one:tuned, version: 1.0.0, purpose: loud, flags: {--loud: 3},
provenance: {kind: tuned, method: golden, machine: m, workload: web, effect_pct: 3, interval_pct: [1, 5],
             date: "2026-11-01", seeds: [1], trials: 9}}"""


def write(folder: Path, more: str = "") -> Path:
    """Both into `folder`, with `more` entries; gives the manifest."""
    (folder / "policies").mkdir()
    (folder / "policies/scx_one-tuned.yaml").write_text(_TUNED)
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST + more)
    return manifest
