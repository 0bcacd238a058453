"""The last screen of `make reproduce`: every number comes from a table, and nothing is open."""

import re
import shutil

import pandas as pd
import pytest

from weince_lib import paths
from weince_lib.publish import findings
from weince_lib.studies import retrained
from weince_lib.studies.collect import load_table
from weince_lib.studies.decide import word
from weince_lib.studies.grid import study


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


def test_a_changed_study_changes_its_line_and_its_word(results):
    name, method = "cpu-gain-pairs", "infonce+both"
    metric = "standardised_linear_accuracy"
    (setting,) = [s.label for s in study(name).methods[method]]

    def lines():
        found = findings.found_lines()
        place = found.index("  both further losses")
        return found[place + 2 : place + 4]

    def move(by):
        change(
            results / "studies" / f"{name}.csv",
            lambda t: (t["setting"] == setting) & (t["metric"] == metric) & (t["split"] == "test"),
            by,
        )

    fashion, pairs = lines()
    assert fashion.split()[0] == "Fashion-MNIST" and pairs.split()[:2] == ["digit", "pairs"]
    move(6.0)
    after = lines()
    assert after[0] == fashion
    (old, *near), (new, *same) = numbers(pairs), numbers(after[1])
    assert new == pytest.approx(old + 6, abs=0.011) and near == same
    assert "better" in after[1]
    move(-20.0)
    assert "worse" in lines()[1]


def test_the_screen_says_what_the_decisions_say(results):
    found = findings.decisions().query("role == 'primary' and word != 'not run'")
    lines = findings.found_lines()
    for row in found.to_dict("records"):
        place = lines.index(f"  {row['contrast']}")
        own = next(line for line in lines[place:] if line.strip().startswith(row["data"]))
        assert findings.short(row) in own
        assert row["word"] == word(row["low"], row["high"], 0.97)


def test_studies_without_rows_are_left_out_and_say_so(results):
    (results / "studies" / "cpu-gain-pairs.csv").unlink()
    assert not [line for line in findings.found_lines() if "digit pairs" in line]
    assert "digit pairs" not in set(findings.decisions()["data"])
    for name in ("cpu-gain-fashion", "cpu-cifar-decide", "cpu-cifar-long"):
        (results / "studies" / f"{name}.csv").unlink()
    lines = findings.found_lines()
    assert "  lower temperature: not run" in lines
    empty = findings.decisions()
    assert empty.empty and findings.cells(empty).empty
    with pytest.raises(ValueError, match="no study has rows"):
        findings.answer(empty, empty)


def test_an_unfinished_study_has_no_word_yet(results):
    name = "cpu-gain-pairs"
    path = results / "studies" / f"{name}.csv"
    table = pd.read_csv(path)
    table[table["seed"] != study(name).seeds[-1]].to_csv(path, index=False)
    assert set(findings.decisions([name])["word"]) == {"not finished", "not run"}


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


def test_counts_are_those_of_the_list_and_nothing_is_open(results, tmp_path):
    write_retrained(results, 0.1)
    claims = tmp_path / "claims.txt"
    lines = findings.lines("quick", claims)
    assert not [line for line in lines if re.search(r"\bopen\b", line)]
    assert lines[-1].endswith(str(claims))
    full = claims.read_text(encoding="utf-8").splitlines()
    assert not [line for line in full if line.startswith("open")]
    total = [int(n) for n in line_of("  all ", lines).split()[1:]]
    assert sum(total) == sum(not line.startswith(" ") for line in full) - 1
    for count, verdict in zip(total, findings.VERDICTS, strict=False):
        assert count == sum(line.startswith(f"{verdict:<23} ") for line in full)


def test_a_claim_without_rows_is_counted_as_open(results):
    table = pd.read_csv(results / "quick.csv")
    kept = table[table["experiment"] != "check-01_plackett_luce"]
    kept.to_csv(results / "quick.csv", index=False)
    assert re.search(r"\bopen\b", "\n".join(findings.lines("quick")))
