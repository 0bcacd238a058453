"""Every kind of file gives the same matrix; bad content gives one clear error, never code run."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from weince_lib.diagnostics import ReadSettings, read_embeddings, read_labels, read_pairs
from weince_lib.diagnostics.embeddings import check_rows, code_labels

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
    np.testing.assert_allclose(read_embeddings(write(tmp_path / name)).values, Z, rtol=1e-14)


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
        read_embeddings(path)
    assert not mark.exists()


def with_row(row, value):
    z = Z.copy()
    z[row] = value
    return z


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Z[0], r"2-D.*\(4,\)"),
        (Z[None], "2-D"),
        (Z.astype(str), "real numbers"),
        (Z + 0j, "real numbers"),
        (with_row(7, np.nan), "row 7"),
        (with_row(9, np.inf), "row 9"),
        (with_row(11, 0.0), "row 11"),
        (np.outer(np.arange(1, 9), [1.0, 2.0]), "all 8 rows"),
        (Z[:1], "2 rows"),
        (Z[:, :1], "2 columns"),
        (np.arange(240, dtype=np.uint8).reshape(60, 4), r"unpackbits.*astype"),
        (np.arange(120, dtype=np.int8).reshape(30, 4), r"unpackbits.*astype"),
    ],
)
def test_bad_embeddings(bad, message):
    with pytest.raises(ValueError, match=message):
        check_rows(bad)


def test_half_precision_and_integers_are_embeddings_too():
    assert check_rows(torch.from_numpy(Z).bfloat16()).dtype == np.float32
    assert check_rows(np.array([[1, 2], [3, -4]])).dtype == np.float64


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("z.txt", "1 2", r"\.npy"),
        ("cut.safetensors", "\x00\x01", "cut.safetensors"),
        ("words.csv", "a,b\n1,x\n2,y\n", "'b'"),
        ("index.csv", ",a,b\n0,1.5,2\n1,2,3\n", "index=False"),
        ("semicolons.csv", "0.5;1\n2;3.5\n", "commas"),
        ("text.csv", 'embedding\n"[1, 2]"\n"[3, 4]"\n', "text"),
        ("blank.csv", "1.5,2\n\n3,4.5\n", "line 2"),
        ("long.csv", "a,b\n1,2,3\n4,5,6\n", "long.csv"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_embeddings(put(tmp_path / name, content))


def test_files_without_the_array_that_is_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npy"):
        read_embeddings(tmp_path / "none.npy")
    np.savez(tmp_path / "two.npz", a=Z, b=Z)
    with pytest.raises(ValueError, match="2 arrays"):
        read_embeddings(tmp_path / "two.npz")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 60]], r"\(0, 60\).*0 to 59"),
        ([[0, 1], [-1, 2]], "pair 1"),
        ([[3, 3]], "itself"),
        ([[0.5, 1]], "whole row numbers"),
        ([0, 1], "two row numbers"),
        ("0,1\n2,\n", "whole row numbers"),
        ("0,1\n2,three\n4,5\n", r"pairs\.csv.*'three'"),
    ],
)
def test_bad_pairs(tmp_path, pairs, message):
    if isinstance(pairs, str):
        pairs = put(tmp_path / "pairs.csv", pairs)
    with pytest.raises(ValueError, match=message):
        read_pairs(pairs, 60)


def test_pairs_have_no_numeric_header(tmp_path):
    path = put(tmp_path / "pairs.csv", "0,1\n2,3\n4,5\n")
    read = read_pairs(path, 60)
    assert read.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    read = read_pairs(put(path, "first,second\n0,1\n2,3\n"), 60)
    assert read.values.tolist() == [[0, 1], [2, 3]]
    assert "header" in read.notes[0]


@pytest.mark.parametrize(
    ("text", "rows", "reading", "found"),
    [
        ("cat\ndog\ncat\n", 3, {}, [0, 1, 0]),
        ("label\ncat\ndog\ncat\n", 3, {}, [0, 1, 0]),
        ("001\n1\n01\n1\n", 4, {}, [0, 1, 2, 1]),
        ("label\n001\n1\n01\n1\n", 4, {}, [0, 1, 2, 1]),
        ("label\na\nb\n\na\nc\n", 5, {"unlabelled": "alone"}, [0, 1, 2, 0, 3]),
        ("cat\ndog\ncat\n", 2, {"labels_header": True}, [0, 1]),
        ("label\ndog\ncat\n", 3, {"labels_header": False}, [0, 1, 2]),
        ("cat\ndog\ncat\n", 9, {}, "3 labels for 9 rows"),
        ("a\na\n", 2, {}, "same label"),
        ("label\na\nb\n\na\nc\n", 5, {}, "row 2"),
        ("label\na\nb\n\na\n", 3, {"labels_header": True}, r"4 labels for 3 rows.*line 4"),
        ("cat\ndog\ncat\n", 2, {}, r"3 labels for 2 rows.*'cat'.*--labels-header"),
        ("label\ndog\ncat\n", 3, {}, r"'label'.*--no-labels-header"),
        ("0,a\n1,b\n", 2, {}, "line 1"),
    ],
)
def test_labels_are_lines_of_text(tmp_path, text, rows, reading, found):
    path = put(tmp_path / "labels.csv", text)
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            read_labels(path, rows, ReadSettings(**reading))
        return
    read = read_labels(path, rows, ReadSettings(**reading))
    assert read.values.tolist() == found
    assert any("1 rows have no label" in note for note in read.notes) == ("\n\n" in text)


def test_labels_of_a_parquet_file(tmp_path):
    pd.DataFrame({"y": ["a", None, "b"]}).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="row 1 has no label"):
        read_labels(tmp_path / "y.parquet", 3)


@pytest.mark.parametrize(
    "missing", ["", " ", "None", "nan", "<NA>", "-1", None, float("nan"), pd.NA, pd.NaT]
)
def test_a_missing_label_is_an_error_unless_it_is_a_class_of_its_own(missing):
    labels = ["a", "b", missing, "a", missing]
    with pytest.raises(ValueError, match="row 2 has no label"):
        code_labels(labels, 5)
    codes, count = code_labels(labels, 5, "alone")
    assert codes.tolist() == [0, 1, 2, 0, 3] and count == 2


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.array([0, -1, 2, -1]), r"row 1.*-1"),
        (np.array([1, -1, 1, -1]), [0, 1, 0, 1]),
        (torch.tensor([1.0, -1.0, 1.0]), [0, 1, 0]),
        (["1", 1, "2"], "row 1"),
        ([[1, 2], [3, 4]], "list"),
        ([torch.tensor(3), torch.tensor(3), 4], [0, 0, 1]),
        (np.array([b"a", b"b"]), [0, 1]),
    ],
)
def test_numbers_text_and_minus_one(labels, found):
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            code_labels(labels, len(labels))
    else:
        assert code_labels(labels, len(labels))[0].tolist() == found


def table(kind, tmp_path, **extra):
    frame = pd.DataFrame(Z, columns=[f"c{k}" for k in range(4)]).assign(**extra)
    path = tmp_path / f"z.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("label", (np.arange(60) % 5).astype(float)),
        ("number", np.arange(60) + 1000),
        ("idx", np.linspace(0.5, 9.7, 60)),
    ],
)
def test_a_column_that_is_no_coordinate_is_refused_until_it_is_named(tmp_path, kind, name, values):
    path = table(kind, tmp_path, **{name: values})
    with pytest.raises(ValueError, match=rf"column '{name}'.*--ignore-column {name}"):
        read_embeddings(path)
    read = read_embeddings(path, ReadSettings(ignore=(name,)))
    np.testing.assert_allclose(read.values, Z, rtol=1e-14)
    assert any(f"column '{name}' left out" in note for note in read.notes)
    assert read_embeddings(path, ReadSettings(keep=(name,))).values.shape == (60, 5)
    labelled = read_embeddings(path, ReadSettings(label_column=name))
    assert labelled.values.shape == (60, 4) and len(np.unique(labelled.labels)) in (5, 60)
    with pytest.raises(ValueError, match=r"'other'.*c0"):
        read_embeddings(path, ReadSettings(ignore=("other",)))


def test_label_column_is_read_as_text(tmp_path):
    path = table("csv", tmp_path, label=["001", "1", "", "NA"] * 15)
    labels = read_embeddings(path, ReadSettings(label_column="label")).labels
    assert labels[:4].tolist() == ["001", "1", "", "NA"]


def test_an_array_with_a_column_of_whole_numbers_is_refused():
    z = np.c_[Z, np.arange(60)]
    with pytest.raises(ValueError, match="column '4'"):
        read_embeddings(z)
    np.testing.assert_array_equal(read_embeddings(z, ReadSettings(ignore=(4,))).values, Z)
    assert read_embeddings(z, ReadSettings(keep=(4,))).values.shape == (60, 5)
    dead = np.c_[Z, np.zeros(60)]  # a unit that never fires
    assert read_embeddings(dead).values.shape == (60, 5)
    with pytest.raises(ValueError, match="column 'label'"):
        read_embeddings(pd.DataFrame(Z, columns=list("abcd")).assign(label=range(60)))
    whole = read_embeddings(np.random.default_rng(0).integers(-9, 9, (60, 4)))
    assert whole.values.shape == (60, 4) and "whole numbers" in whole.notes[0]


def test_parquet_with_an_id_and_a_column_of_vectors(tmp_path):
    path = tmp_path / "z.parquet"
    frame = pd.DataFrame({"id": range(60), "vector": list(Z)})
    frame.to_parquet(path)
    read = read_embeddings(path)
    np.testing.assert_array_equal(read.values, Z)
    assert "'vector'" in read.notes[0] and "id" in read.notes[0]
    labels = read_embeddings(path, ReadSettings(label_column="id")).labels
    assert labels.tolist() == list(range(60))
    frame.assign(second=list(Z)).to_parquet(path)
    with pytest.raises(ValueError, match="columns of vectors"):
        read_embeddings(path)
    np.testing.assert_array_equal(read_embeddings(path, ReadSettings(ignore=("second",))).values, Z)
    frame.assign(embedding=list(2 * Z)).to_parquet(path)
    np.testing.assert_array_equal(read_embeddings(path).values, 2 * Z)
    for bad, message in (
        ([*Z[:59], Z[0][:2]], "row 59"),
        ([*Z[:59], None], "row 59"),
    ):
        pd.DataFrame({"id": range(60), "vector": bad}).to_parquet(path)
        with pytest.raises(ValueError, match=message):
            read_embeddings(path)


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        (None, False),
        ("a,b,c,d", True),
        ("0,1,2,3", True),
        ("id,0,1,2", True),
        ("1,2,3,5", False),
    ],
)
def test_what_is_taken_for_a_header_is_said(tmp_path, head, taken):
    lines = [",".join(map(str, row)) for row in Z.tolist()]
    path = put(tmp_path / "z.csv", "\n".join(lines if head is None else [head, *lines]))
    read = read_embeddings(path, ReadSettings(keep=("id",) if head and "id" in head else ()))
    assert len(read.values) == 60 + (head is not None and not taken)
    assert ("no line was taken for a header" in read.notes[0]) is not taken
    if head == "0,1,2,3":
        assert len(read_embeddings(path, ReadSettings(header=False)).values) == 61


def test_a_missing_reader_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "z.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'weince-lib\[diagnose\]'"):
        read_embeddings(path)
