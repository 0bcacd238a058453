"""Every kind of file gives the same matrix; bad content gives one clear error, never code run."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from weince_lib.diagnostics import load_embeddings, load_labels, load_pairs
from weince_lib.diagnostics.embedding_checks import check_rows

Z = np.random.default_rng(0).standard_normal((60, 4))


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def write(path: Path) -> Path:
    kind = path.suffix
    if kind == ".npy":
        np.save(path, Z)
    elif kind == ".npz":
        np.savez(path, embeddings=Z, other=Z[:3])
    elif kind in (".pt", ".pth"):
        torch.save({"z": torch.from_numpy(Z)} if kind == ".pth" else torch.from_numpy(Z), path)
    elif kind == ".safetensors":
        safetensors.torch.save_file({"features": torch.from_numpy(Z)}, path)
    elif kind == ".csv":
        pd.DataFrame(Z).to_csv(path, index=False, header="header" in path.name)
    else:
        pd.DataFrame(Z, columns=list("abcd")).to_parquet(path)
    return path


@pytest.mark.parametrize(
    "name",
    ["z.npy", "z.npz", "z.pt", "z.pth", "z.safetensors", "z.csv", "header.csv", "z.parquet"],
)
def test_every_kind_of_file(tmp_path, name):
    np.testing.assert_allclose(load_embeddings(write(tmp_path / name)), Z, rtol=1e-14)


def test_parquet_with_a_column_of_vectors(tmp_path):
    pd.DataFrame({"embedding": list(Z)}).to_parquet(tmp_path / "z.parquet")
    np.testing.assert_array_equal(load_embeddings(tmp_path / "z.parquet"), Z)


@pytest.mark.parametrize("name", ["z.pkl", "z.npy", "z.npz", "z.pt", "inside.npy", "inside.npz"])
def test_pickles_are_refused_and_not_executed(tmp_path, name):
    mark = tmp_path / "executed"
    path = tmp_path / name
    if name == "inside.npy":
        np.save(path, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    elif name == "inside.npz":
        np.savez(path, embeddings=np.array([Bomb(mark)], dtype=object))
    elif name == "z.pt":
        torch.save({"z": Bomb(mark)}, path)
    else:
        path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(ValueError, match="refused"):
        load_embeddings(path)
    assert not mark.exists()


def with_row(row, value):
    z = Z.copy()
    z[row] = value
    return z


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Z[0], r"must be 2-D, one row per item, got shape \(4,\)"),
        (Z[None], "must be 2-D"),
        (Z.astype(str), "must be real numbers"),
        (Z + 0j, "must be real numbers"),
        (with_row(7, np.nan), "row 7 holds NaN or infinity"),
        (with_row(9, np.inf), "row 9 holds NaN or infinity"),
        (with_row(11, 0.0), "row 11 is zero"),
        (np.ones((60, 4)), "all 60 rows point the same way"),
        (np.outer(np.arange(1, 9), [1.0, 2.0]), "all 8 rows point the same way"),
        (Z[:1], "1 rows of 4 columns; at least 2 rows"),
        (Z[:, :1], "2 columns are needed"),
    ],
)
def test_bad_embeddings(bad, message):
    with pytest.raises(ValueError, match=message):
        check_rows(bad)


def test_half_precision_and_integers_are_embeddings_too():
    assert check_rows(torch.from_numpy(Z).bfloat16()).dtype == np.float32
    assert check_rows(np.array([[1, 2], [3, -4]])).dtype == np.float64


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        load_embeddings(tmp_path / "none.npy")
    (tmp_path / "z.txt").write_text("1 2")
    with pytest.raises(ValueError, match=r"unknown kind of file; known: \.npy"):
        load_embeddings(tmp_path / "z.txt")
    np.savez(tmp_path / "two.npz", a=Z, b=Z)
    with pytest.raises(ValueError, match="holds 2 arrays"):
        load_embeddings(tmp_path / "two.npz")
    (tmp_path / "words.csv").write_text("a,b\n1,x\n2,y\n")
    with pytest.raises(ValueError, match="column 'b' is not numeric"):
        load_embeddings(tmp_path / "words.csv")
    pd.DataFrame(Z).to_csv(tmp_path / "index.csv")
    with pytest.raises(ValueError, match="save the table with index=False"):
        load_embeddings(tmp_path / "index.csv")
    (tmp_path / "cut.safetensors").write_bytes(b"\x00\x01")
    with pytest.raises(ValueError, match="cannot be read"):
        load_embeddings(tmp_path / "cut.safetensors")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 60]], r"pair 0 is \(0, 60\), outside the rows 0 to 59"),
        ([[0, 1], [-1, 2]], "pair 1 is"),
        ([[3, 3]], "a row paired with itself"),
        ([[0.5, 1]], "whole row numbers"),
        ([0, 1], "two row numbers a line"),
    ],
)
def test_bad_pairs(tmp_path, pairs, message):
    np.save(tmp_path / "pairs.npy", np.array(pairs))
    with pytest.raises(ValueError, match=message):
        load_pairs(tmp_path / "pairs.npy", 60)


def test_labels_may_be_text_with_or_without_a_header(tmp_path):
    names = ["cat", "dog", "cat"]
    for head in ([], ["label"]):
        (tmp_path / "labels.csv").write_text("\n".join([*head, *names]) + "\n")
        assert load_labels(tmp_path / "labels.csv", 3).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"labels must have shape \(9,\)"):
        load_labels(tmp_path / "labels.csv", 9)
    (tmp_path / "same.csv").write_text("a\na\n")
    with pytest.raises(ValueError, match="all rows have the same label"):
        load_labels(tmp_path / "same.csv", 2)


def test_a_missing_reader_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "z.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'weince-lib\[diagnose\]'"):
        load_embeddings(path)
