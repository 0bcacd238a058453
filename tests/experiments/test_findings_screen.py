"""The last screen of `make reproduce`: every number comes from a table, and nothing is open."""

import re
import shutil

import pandas as pd
import pytest

from weince_lib import paths
from weince_lib.experiments import findings, retrained
from weince_lib.experiments.collect import load_table
from weince_lib.experiments.grid import study


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A copy of the committed tables, which the test may change."""
    folder = tmp_path / "results"
    for name in ("studies", "quick.csv"):
        source = paths.committed_results() / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        folder.mkdir(exist_ok=True)
        copy(source, folder / name)
    return folder


def change(path, which, value):
    """Add ``value`` to the rows of a table that ``which`` picks."""
    text = {"setting": "str", "key": "str"}
    table = pd.read_csv(path, dtype=text)
    chosen = which(table)
    assert chosen.any()
    table.loc[chosen, "value"] += value
    table.to_csv(path, index=False)


def line_of(words, lines):
    (line,) = [line for line in lines if words in line]
    return line


def numbers(line):
    return [float(n) for n in re.findall(r"[+-]\d+\.\d+", line)]


@pytest.mark.parametrize("finding", findings.FINDINGS, ids=lambda f: f.method)
def test_a_changed_study_changes_its_line(results, finding):
    before = findings.found_lines()
    name = finding.studies[-1]
    settings = [s.label for s in study(name).methods[finding.method]]
    change(
        results / "studies" / f"{name}.csv",
        lambda t: (
            t["setting"].isin(settings) & (t["metric"] == finding.metric) & (t["split"] == "test")
        ),
        10.0,
    )
    after = findings.found_lines()
    old, new = (numbers(line_of(finding.words, lines)) for lines in (before, after))
    assert old[:-3] == new[:-3]
    # The other method may be tuned over settings that include this one; here none is.
    assert new[-3:] == pytest.approx([value + 10 for value in old[-3:]], abs=0.011)
    assert line_of(finding.words, after).endswith("helps")
    change(
        results / "studies" / f"{name}.csv",
        lambda t: (
            t["setting"].isin(settings) & (t["metric"] == finding.metric) & (t["split"] == "test")
        ),
        -30.0,
    )
    assert line_of(finding.words, findings.found_lines()).endswith("hurts")


def test_a_study_without_rows_says_so(results):
    (results / "studies" / "cpu-gain-pairs.csv").unlink()
    lines = findings.found_lines()
    assert line_of(findings.FINDINGS[0].words, lines).endswith("no rows")


def write_retrained(results, shift):
    """A run whose numbers are the committed ones of seed 7, moved."""
    table = load_table(paths.committed_results() / "quick.csv")
    table = table[table["seed"] == 7].copy()
    table["value"] += shift
    table.to_csv(results / "retrained.csv", index=False)


def test_distance_is_in_standard_deviations_over_committed_seeds(results):
    assert "weince retrain" in findings.here_lines()[0]
    write_retrained(results, 1.5)
    beside = retrained.beside_committed()
    assert [b.name for b in beside] == [row[-1] for row in retrained.SHOWN]
    table = load_table(paths.committed_results() / "quick.csv")
    for b, (experiment, loss, metric, split, _) in zip(beside, retrained.SHOWN, strict=True):
        own = table[
            (table[["experiment", "loss", "metric"]] == [experiment, loss, metric]).all(axis=1)
        ]
        by_seed = own[own["split"] == split].groupby("seed")["value"].mean()
        assert len(by_seed) == b.seeds == 4
        assert b.committed == pytest.approx(by_seed[7.0])
        assert b.here - b.committed == pytest.approx(1.5)
        assert b.distance == pytest.approx(1.5 / by_seed.std(ddof=1))
        line = line_of(b.name, findings.here_lines()[:-1])
        assert line.endswith(f"{b.distance:+.1f}")
    last = findings.here_lines()[-1]
    assert f"{max(abs(b.distance) for b in beside):.1f}" in last


def test_a_changed_committed_table_changes_the_distance(results, tmp_path, monkeypatch):
    write_retrained(results, 0.0)
    assert all(b.distance == 0 for b in retrained.beside_committed())
    change(results / "quick.csv", lambda t: (t["experiment"] == "tail") & (t["seed"] == 7), 1.0)
    monkeypatch.setattr(paths, "committed_results", lambda: results)
    moved = {b.name: b.distance for b in retrained.beside_committed() if b.distance != 0}
    assert list(moved) == ["InfoNCE: shape of the tail"]
    assert moved["InfoNCE: shape of the tail"] < 0


def test_the_screen_fits_and_nothing_is_open(results, tmp_path):
    write_retrained(results, 0.1)
    claims = tmp_path / "claims.txt"
    lines = findings.lines("quick", claims)
    assert max(map(len, lines[:-1])) <= 100  # the last is the path
    assert len(lines) < 50
    assert not [line for line in lines if re.search(r"\bopen\b", line)]
    assert lines[-1].endswith(str(claims))
    full = claims.read_text(encoding="utf-8").splitlines()
    assert not [line for line in full if line.startswith("open")]
    # Counts of the screen are those of the list.
    total = [int(n) for n in line_of("  all ", lines).split()[1:]]
    assert sum(total) == sum(not line.startswith(" ") for line in full) - 1
    for count, verdict in zip(total, findings.VERDICTS, strict=False):
        assert count == sum(line.startswith(f"{verdict:<23} ") for line in full)


def test_verdicts_are_counted_by_notebook(results):
    decisions = findings.decide_all("quick")
    shown = findings.verdict_lines(decisions)
    for name in {d.claim.notebook for d in decisions}:
        cells = [0 if c == "·" else int(c) for c in line_of(name, shown).split()[1:]]
        assert cells == [
            sum(d.verdict == v for d in decisions if d.claim.notebook == name)
            for v in findings.VERDICTS
            if v != "open"
        ]


def test_a_claim_without_rows_is_counted_as_open(results):
    table = pd.read_csv(results / "quick.csv")
    table[table["experiment"] != "tail"].to_csv(results / "quick.csv", index=False)
    assert re.search(r"\bopen\b", "\n".join(findings.lines("quick")))
