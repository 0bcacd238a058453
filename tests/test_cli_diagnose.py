"""``weince diagnose``: what it writes and prints, and one line for bad input."""

import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.diagnostics import diagnosis_report


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "z.npy"
    np.save(path, np.random.default_rng(0).standard_normal((400, 5)))
    return path


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """The figures have their own test, and take most of the time."""
    monkeypatch.setattr(diagnosis_report, "_figures", lambda diagnosis: [])


def run(*arguments):
    return CliRunner().invoke(main, ["diagnose", *map(str, arguments)])


def test_report_and_verdict(saved, tmp_path):
    out = tmp_path / "report"
    done = run(saved, "--out", out)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "endpoint-like"
    assert done.output.splitlines()[-1] == str(out / "report.html")
    assert json.loads((out / "report.json").read_text("utf-8"))["verdict"] == "endpoint-like"
    first = (out / "report.json").read_bytes()
    again = run(saved, "--out", out)  # from the finished bank
    assert again.exit_code == 0 and (out / "report.json").read_bytes() == first
    assert run(saved, "--out", out, "--seed", 1).output.startswith("Error: ")


def test_pairs_and_labels(saved, tmp_path):
    np.save(tmp_path / "pairs.npy", np.stack([np.arange(200), np.arange(200) + 200], axis=1))
    (tmp_path / "labels.csv").write_text("\n".join("ab"[k % 2] for k in range(400)))
    done = run(saved, "--pairs", tmp_path / "pairs.npy", "--out", tmp_path / "one")
    assert done.exit_code == 0, done.output
    done = run(saved, "--labels", tmp_path / "labels.csv", "--temperature", 0.1)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "z-diagnosis" / "report.html").is_file()
    both = ("--pairs", tmp_path / "pairs.npy", "--labels", tmp_path / "labels.csv")
    assert run(saved, *both).exit_code == 2


def test_bad_input_is_one_line(tmp_path, saved):
    pickled = tmp_path / "z.pkl"
    pickled.write_bytes(pickle.dumps([1, 2]))
    np.save(tmp_path / "pairs.npy", [[0, 400]])
    for arguments, words in (
        ((pickled,), "refused"),
        ((tmp_path / "none.npy",), "no file"),
        ((saved, "--pairs", tmp_path / "pairs.npy"), "outside the rows 0 to 399"),
    ):
        done = run(*arguments)
        assert done.exit_code == 1
        assert done.output.startswith("Error: ") and words in done.output
        assert "Traceback" not in done.output


def test_columns_headers_and_missing_labels_are_options(tmp_path):
    z = np.random.default_rng(0).standard_normal((120, 5))
    lines = [",".join(map(str, [k, *row, "ab"[k % 2]])) for k, row in enumerate(z.tolist())]
    path = tmp_path / "z.csv"
    path.write_text("\n".join(["id,c1,c2,c3,c4,c5,kind", *lines]))
    done = run(path)
    assert done.exit_code == 1 and "--ignore-column" in done.output
    done = run(path, "--ignore-column", "id", "--label-column", "kind")
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "the first line (id, c1, c2, c3, ...) was taken for a header" in shown
    assert "columns 'id', 'kind' left out" in shown
    held = json.loads((tmp_path / "z-diagnosis" / "report.json").read_text("utf-8"))
    assert held["bank"]["pairs"] == 60 * 60 and held["columns"] == 5
    assert any("taken for a header" in note for note in held["notes"])
    assert "taken for a header" in (tmp_path / "z-diagnosis" / "report.html").read_text("utf-8")


def test_labels_with_a_gap(tmp_path, saved):
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["kind", *("ab"[k % 2] for k in range(399)), ""]) + "\n")
    done = run(saved, "--labels", labels)
    assert done.exit_code == 1 and "--labels-header" in done.output
    done = run(saved, "--labels", labels, "--labels-header")
    assert done.exit_code == 1 and "row 399 has no label" in done.output
    done = run(saved, "--labels", labels, "--labels-header", "--unlabelled", "alone")
    assert done.exit_code == 0, done.output
    assert "the first line (kind) was taken for a header" in " ".join(done.output.split())


def test_hidden_views_are_in_the_first_line(tmp_path):
    rng = np.random.default_rng(0)
    z = np.tile(rng.standard_normal((60, 64)), (8, 1)) + 0.05 * rng.standard_normal((480, 64))
    np.save(tmp_path / "z.npy", z)
    done = run(tmp_path / "z.npy")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "undecided: 1,680 pairs lie far above the rest"
