"""``weince diagnose``: what it writes and prints, and one line for bad input."""

import errno
import json
import os
import pickle
import signal
import time

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from weince_lib import files
from weince_lib.cli import main
from weince_lib.diagnostics import report_page


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "z.npy"
    np.save(path, np.random.default_rng(0).standard_normal((400, 5)))
    return path


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """The figures have their own test, and take most of the time."""
    monkeypatch.setattr(report_page, "_figures", lambda diagnosis: [])


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
    one_line(run(pickled), "refused")
    one_line(run(tmp_path / "none.npy"), "none.npy")
    one_line(run(saved, "--pairs", tmp_path / "pairs.npy"), "0 to 399")
    np.save(tmp_path / "few.npy", np.repeat(np.random.default_rng(0).normal(size=(20, 5)), 10, 0))
    one_line(run(tmp_path / "few.npy"), "180")


def test_columns_headers_and_missing_labels_are_options(tmp_path):
    z = np.random.default_rng(0).standard_normal((120, 5))
    lines = [",".join(map(str, [k, *row, "ab"[k % 2]])) for k, row in enumerate(z.tolist())]
    path = tmp_path / "z.csv"
    path.write_text("\n".join(["id,c1,c2,c3,c4,c5,kind", *lines]))
    done = run(path)
    assert done.exit_code == 1 and "--ignore-column" in done.output
    done = run(path, "--ignore-column", "id", "--label-column", "kind")
    assert done.exit_code == 0, done.output
    assert "taken for a header" in " ".join(done.output.split())
    held = json.loads((tmp_path / "z-diagnosis" / "report.json").read_text("utf-8"))
    assert held["bank"]["pairs"] == 60 * 60 and held["columns"] == 5
    assert any("taken for a header" in note for note in held["notes"])


def test_labels_with_a_gap(tmp_path, saved):
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["kind", *("ab"[k % 2] for k in range(399)), ""]) + "\n")
    done = run(saved, "--labels", labels)
    assert done.exit_code == 1 and "--labels-header" in done.output
    done = run(saved, "--labels", labels, "--labels-header")
    assert done.exit_code == 1 and "row 399" in done.output
    done = run(saved, "--labels", labels, "--labels-header", "--unlabelled", "alone")
    assert done.exit_code == 0, done.output


def one_line(done, *words):
    """Assert that a command failed with a last line that holds all the words, and no traceback."""
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("Error: ")
    for word in words:
        assert word in done.stderr


def header(text):
    """A .npy file with a header of one's own and 8,000 bytes of zeros."""
    encoded = text.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded + bytes(8000)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 110,
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 5)}",
        "{'descr': 7, 'fortran_order': False, 'shape': (200, 5)}",
    ],
)
def test_a_malformed_header_is_one_line(tmp_path, text):
    (tmp_path / "z.npy").write_bytes(header(text))
    one_line(run(tmp_path / "z.npy"), "z.npy", "save it anew")


@pytest.mark.parametrize("kind", ["compressed by an unknown method", "cut", "flipped"])
def test_a_damaged_archive_is_named(tmp_path, saved, kind):
    path = tmp_path / "z.npz"
    np.savez(path, embeddings=np.load(saved))
    content = bytearray(path.read_bytes())
    if kind == "cut":
        content = content[:1000]
    elif kind == "flipped":
        content[300] ^= 255
    else:
        content[content.rfind(b"PK\x01\x02") + 10] = 77
    path.write_bytes(content)
    one_line(run(path), "z.npz", "save it anew")


@pytest.mark.parametrize(
    ("convert", "advice"),
    [
        (lambda z: z.to(torch.float8_e4m3fn), ".float()"),
        (torch.Tensor.to_sparse, ".to_dense()"),
        (lambda z: torch.quantize_per_tensor(z, 0.1, 0, torch.qint8), ".dequantize()"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_of_other_kinds_are_one_line(tmp_path, saved, convert, advice):
    torch.save(convert(torch.from_numpy(np.load(saved)).float()), tmp_path / "z.pt")
    one_line(run(tmp_path / "z.pt"), "z.pt", advice)


def test_a_place_that_cannot_be_written_is_one_line(saved, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    one_line(run(saved, "--out", tmp_path / "file" / "report"), str(tmp_path / "file"))
    one_line(run(saved, "--out", tmp_path / ("x" * 300)), "too long", "shorter")
    one_line(run(tmp_path / f"{'x' * 300}.npy"), "too long", "shorter")

    def full(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    out = tmp_path / "report"
    assert run(saved, "--out", out).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_text", full)
        done = run(saved, "--out", out)
        one_line(done, "report.", "No space left", "free some space")
        assert done.stdout.splitlines()[0] == "endpoint-like"  # the answer is not lost


def test_a_damaged_bank_is_named_and_made_anew(saved, tmp_path):
    out = tmp_path / "report"
    assert run(saved, "--out", out).exit_code == 0
    report, block = (out / "report.json").read_bytes(), out / "bank" / "blocks" / "00000.npz"
    whole = block.read_bytes()
    np.savez(tmp_path / "less.npz", members=np.load(block)["members"])
    for content in (b"", whole[:5000], b"no archive", (tmp_path / "less.npz").read_bytes()):
        block.write_bytes(content)
        with pytest.warns(UserWarning, match=r"00000\.npz is damaged .*made anew"):
            assert run(saved, "--out", out).exit_code == 0
        assert (out / "report.json").read_bytes() == report
    for content in ("{", "[1]", "7"):
        (out / "bank" / "bank.json").write_text(content)
        one_line(run(saved, "--out", out), "bank.json", "delete")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_from_outside_is_one_line(saved, monkeypatch, stop):
    def stopped(*_, **__):
        os.kill(os.getpid(), stop)
        time.sleep(10)

    monkeypatch.setattr("weince_lib.diagnostics.diagnose", stopped)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = run(saved)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 130
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("stopped; ") and "goes on" in done.stderr
