"""The diagnosis of whole sets: verdicts, duplicates, the report, and bad input."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import weince_lib
from weince_lib.diagnostics import BankSettings


def sphere(rows, dimension, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, dimension))


@pytest.fixture(scope="module")
def low():
    z = sphere(1200, 5)
    z[11] = z[3]
    return weince_lib.diagnose(z)


def test_few_dimensions_end_at_the_cap(low):
    assert low.verdict == "endpoint-like" and low.main.cap == "at the cap"
    # beta = (d - 1) / 2 and xi = -2 / (d - 1), with the finite-threshold bias of method.md's d = 6.
    assert low.main.shape == pytest.approx(-0.5, abs=0.08)
    assert low.main.dimension == pytest.approx(4.0, abs=0.4)
    assert low.main.endpoint == pytest.approx(1.0, abs=0.02)
    assert [s.level for s in low.shapes][:2] == [0.9, 0.95] and low.main.level == 0.99


def test_many_dimensions_do_not():
    found = weince_lib.diagnose(sphere(3000, 256, seed=1), temperature=0.1)
    assert found.verdict == "Gumbel-like"
    assert {c.preset: c for c in found.corrections}["calibrated"].open_share < 0.05
    assert found.corrections[0].temperature == 0.1
    assert found.open_share_all < 0.1


def test_duplicates_are_found_named_and_left_out(low):
    assert low.duplicates.identical == 1 and low.duplicates.closest[0][:2] == (3, 11)
    assert low.duplicates.complete
    without = weince_lib.diagnose(np.delete(sphere(1200, 5), 11, axis=0))
    assert low.main.shape == pytest.approx(without.main.shape, abs=0.02)


def test_labels_and_pairs_leave_positives_out():
    rng = np.random.default_rng(2)
    base = sphere(400, 24, seed=3)
    z = np.concatenate([base, base + 0.05 * rng.standard_normal(base.shape)])
    blind = weince_lib.diagnose(z)
    pairs = np.stack([np.arange(400), np.arange(400) + 400], axis=1)
    told = weince_lib.diagnose(z, pairs=pairs)
    by_label = weince_lib.diagnose(z, labels=np.tile(np.arange(400), 2))
    assert blind.bank.rho.max() < 0.05 < told.bank.rho.min()
    assert told.bank.pairs == by_label.bank.pairs == 800 * 799 // 2 - 400
    np.testing.assert_array_equal(told.bank.tails, by_label.bank.tails)


def test_sampled_anchors_say_so():
    found = weince_lib.diagnose(sphere(2000, 6), settings=BankSettings(max_pairs=400_000))
    assert len(found.bank.anchors) == 200 and found.verdict == "endpoint-like"
    assert any("200 of 2,000 rows" in line for line in found.assumptions)
    assert 0 < found.bank.share_error < 0.1 * found.bank.share
    assert found.open_share_all_error > 0


def test_report_is_one_page_and_the_json_holds_the_numbers(low, tmp_path):
    page = low.save(tmp_path, name="a <b> & c")
    text = page.read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in text
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|<script|@import|url\(", text)
    assert "a &lt;b&gt; &amp; c" in text and "<b> &" not in text
    assert "endpoint-like" in text

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    held = json.loads((tmp_path / "report.json").read_text("utf-8"), parse_constant=refuse)
    assert held["verdict"] == low.verdict and held["embeddings"] == "a <b> & c"
    assert held["shapes"][0]["shape"] == low.shapes[0].shape
    assert {c["preset"] for c in held["corrections"]} == {"paper", "calibrated"}
    assert held["near_duplicates"]["closest"][0][:2] == [3, 11]


def test_a_tail_without_a_maximum_likelihood_estimate_is_reported_all_the_same(tmp_path):
    found = weince_lib.diagnose(sphere(400, 2, seed=5))  # on a circle xi = -2
    assert found.verdict == "endpoint-like" and found.main.by_moments
    assert found.main.dimension == pytest.approx(1.0, abs=0.1)
    assert found.main.low < found.main.shape < found.main.high < -1.5
    assert found.main.endpoint_low <= 1.0 < found.main.endpoint_high < 1.001
    assert found.save(tmp_path).exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embeddings": sphere(49, 5)}, "49 rows.*50"),
        ({"temperature": 0.0}, "temperature"),
        ({"batch_size": 2}, "batch_size"),
        ({"pairs": [(0, 100)]}, "0 to 99"),
        ({"labels": [1, 2]}, r"\(100,\)"),
        ({"embeddings": np.repeat(sphere(2, 5), 50, axis=0)}, "duplicates"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        weince_lib.diagnose(**{"embeddings": sphere(100, 5), **given})


def test_import_stays_bare_and_numbers_need_no_plots():
    script = """
import sys
for name in ("matplotlib", "pandas", "click", "tqdm", "pydantic", "safetensors", "pyarrow"):
    sys.modules[name] = None
import numpy as np, weince_lib
assert not any(m.startswith("weince_lib.diagnostics") for m in sys.modules)
found = weince_lib.diagnose(np.random.default_rng(0).standard_normal((300, 5)), progress=True)
found.as_dict()
try:
    found.save("unused")
except ImportError as error:
    assert "weince-lib[" in str(error), error
else:
    raise AssertionError("drew without matplotlib")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
