# SPDX-License-Identifier: GPL-2.0-only
"""The recipe "a metric" of CONTRIBUTING.md, its minimum: the reader, and one declaration, in a copy of the tree."""

import json

import pytest
from tree_copy import ROOT, Tree, copied_tree

from asa import paths
from models import artefact, features

FIELD = "pages_scanned_per_s"
COLUMN = f"{FIELD}_a_core"
SAMPLES = """\
import json, sys
from pathlib import Path
from asa.core.sample import RawSample, PagingCounters
from collectors.rates import derive
from models import features

def sample(second, scanned):
    paging = PagingCounters(faults=1, major_faults=1, paged_in_kib=1, paged_out_kib=1, scanned=scanned)
    return RawSample(monotonic_ns=second * 10**9, wall_ns=0, paging=paging)

found = [derive(sample(1, old), sample(3, new)).pages_scanned_per_s for old, new in ((10, 50), (50, 10), (None, 10))]
print(json.dumps({"rates": found, "columns": features.NAMES}))
"""
JUDGED = """\
import json, sys
import numpy as np
from asa import paths
from asa.core.decision import FeatureFrame
from models import artefact, features
from models.runtime import Ensemble

model = artefact.load(paths.base_model())
chance = np.random.default_rng(7)
known = dict(zip(model.header.features, chance.random((len(model.header.features), 20)), strict=True))
values = np.array([known.get(name, np.full(20, 1e6)) for name in features.NAMES])
runtime = Ensemble(model)
print(json.dumps([runtime.predict(FeatureFrame(schema=features.SCHEMA, values=row)).values for row in values.T]))
"""
LEARNT = """\
import json, sys
from pathlib import Path
import numpy as np
from asa import paths
from calibration.recognition.sources import recordings
from models import artefact, features
from models.train import dataset

found = list(recordings(Path(sys.argv[1])))
names = artefact.load(paths.base_model()).header.features
data = dataset.assemble(found, least_sessions=1)
unknown = [name for name, column in zip(features.NAMES, data.x.T, strict=True) if np.isnan(column).all()]
as_before = dataset.assemble(found, least_sessions=1, names=names)
print(json.dumps({"unknown": unknown, "sha256": as_before.sha256, "sum": float(np.nansum(as_before.x))}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The copy, in which the recipe has been followed."""
    copy = copied_tree(tmp_path_factory.mktemp("metric"))
    # 1: the field of the sample, and the reader
    copy.change(
        "asa/core/sample.py", "    paged_out_kib: int\n", "    paged_out_kib: int\n    scanned: int | None = None\n"
    )
    copy.change("collectors/procfs/memory.py", '(b"\\npgpgin ",', '(b"\\npgscan_kswapd ", b"\\npgpgin ",')
    copy.change("collectors/procfs/memory.py", '_LAST_KEY = b"\\npgmajfault "', '_LAST_KEY = b"\\npgscan_direct "')
    copy.change("collectors/procfs/memory.py", 'b"\\npgfault ", _LAST_KEY)', 'b"\\npgfault ", b"\\npgmajfault ")')
    copy.change(
        "collectors/procfs/memory.py",
        "paged_in, paged_out, faults, major =",
        "scanned, paged_in, paged_out, faults, major =",
    )
    copy.change("collectors/procfs/memory.py", "paged_out_kib=paged_out)", "paged_out_kib=paged_out, scanned=scanned)")
    # 2: the declaration
    copy.change(
        "collectors/metrics/procfs.py",
        "    disk_reads_per_s: float | None",
        f"    {FIELD}: float | None = _VMSTAT.metric(\n"
        '        Unit.PER_S, "Pages looked at to free memory.", of=counter("scanned"), seen=Seen.LOG_A_CORE\n'
        "    )\n"
        "    disk_reads_per_s: float | None",
    )
    copy.change("collectors/metrics/procfs.py", "import Origin, Unit,", "import Origin, Seen, Unit,")
    return copy


def test_the_command_shows_it_with_its_value_on_this_machine(tree):
    found = json.loads(tree.run("-m", "asa.cli", "metrics", "--json", "--seconds", "0.3", "--ebpf", "off"))
    (row,) = [one for one in found["metrics"] if one["name"] == FIELD]
    assert (row["unit"], row["source"], row["backend"], row["why"]) == ("1/s", "vmstat", "procfs", "")
    assert row["value"] >= 0.0
    assert f"| `{FIELD}` | 1/s | procfs | vmstat | Pages looked at" in tree.run(
        "-m", "asa.cli", "metrics", "--markdown"
    )


def test_two_samples_give_its_rate_and_the_features_have_its_column(tree):
    found = json.loads(tree.run("-c", SAMPLES))
    assert found["rates"] == [20.0, None, None]
    assert COLUMN in found["columns"]
    assert [name for name in found["columns"] if name != COLUMN] == list(features.NAMES)


def test_the_shipped_model_predicts_the_same(tree):
    here = Tree(ROOT).run("-c", JUDGED)
    assert tree.run("-c", JUDGED) == here
    assert len(json.loads(here)) == 20
    assert COLUMN not in artefact.load(paths.base_model()).header.features


def test_recordings_of_before_are_learnt_from(tree, tmp_path):
    kept = min((ROOT / "models/recordings").glob("*.journal.xz"), key=lambda path: path.stat().st_size)
    (tmp_path / kept.name).symlink_to(kept)
    here, there = (json.loads(one.run("-c", LEARNT, str(tmp_path))) for one in (Tree(ROOT), tree))
    assert set(there.pop("unknown")) - set(here.pop("unknown")) == {COLUMN}
    assert there == here  # the digest too, by which a model names what it has learnt from
