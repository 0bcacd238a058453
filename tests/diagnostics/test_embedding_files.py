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


def load_embeddings(*given):
    return read_embeddings(*given).values


def load_labels(*given):
    return read_labels(*given).values


def load_pairs(*given):
    return read_pairs(*given).values


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


def labels_file(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_may_be_text_with_or_without_a_header(tmp_path):
    names = ["cat", "dog", "cat"]
    for head in ([], ["label"]):
        path = labels_file(tmp_path, "\n".join([*head, *names]) + "\n")
        assert load_labels(path, 3).tolist() == [0, 1, 0]
        (note,) = read_labels(path, 3).notes
        assert ("(label) was taken for a header" in note) == bool(head)
    with pytest.raises(ValueError, match="has 4 labels for 9 rows"):
        load_labels(path, 9)
    with pytest.raises(ValueError, match="all rows have the same label"):
        load_labels(labels_file(tmp_path, "a\na\n"), 2)


def test_a_blank_line_is_a_row_without_a_label(tmp_path):
    path = labels_file(tmp_path, "label\na\nb\n\na\nb\nc\n")
    with pytest.raises(ValueError, match="row 2 has no label"):
        load_labels(path, 6)
    alone = read_labels(path, 6, ReadSettings(unlabelled="alone"))
    assert alone.values.tolist() == [0, 1, 2, 0, 1, 3]
    assert any("1 rows have no label" in note for note in alone.notes)
    with pytest.raises(ValueError, match=r"6 labels for 5 rows.*line 4 is blank"):
        load_labels(path, 5, ReadSettings(labels_header=True))


def test_one_line_more_than_rows_is_no_header_by_itself(tmp_path):
    path = labels_file(tmp_path, "cat\ndog\ncat\n")
    with pytest.raises(ValueError, match=r"3 labels for 2 rows.*'cat'.*--labels-header"):
        load_labels(path, 2)
    assert load_labels(path, 2, ReadSettings(labels_header=True)).tolist() == [0, 1]
    path = labels_file(tmp_path, "label\ndog\ncat\n")
    with pytest.raises(ValueError, match=r"'label', looks like a header.*--no-labels-header"):
        load_labels(path, 3)
    assert load_labels(path, 3, ReadSettings(labels_header=False)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "missing", ["", " ", "None", "NA", "nan", "<NA>", "-1", None, float("nan"), pd.NA, pd.NaT]
)
def test_a_missing_label_is_an_error_unless_it_is_a_class_of_its_own(missing):
    labels = ["a", "b", missing, "a", missing]
    with pytest.raises(ValueError, match="row 2 has no label"):
        code_labels(labels, 5)
    codes, count = code_labels(labels, 5, "alone")
    assert codes.tolist() == [0, 1, 2, 0, 3] and count == 2


def test_minus_one_is_no_label_unless_the_only_other_is_one():
    with pytest.raises(ValueError, match=r"row 1 has no label \(-1\).*as in scikit-learn"):
        code_labels(np.array([0, -1, 2, -1]), 4)
    assert code_labels(np.array([1, -1, 1, -1]), 4)[0].tolist() == [0, 1, 0, 1]
    assert code_labels(torch.tensor([1.0, -1.0, 1.0]), 3)[0].tolist() == [0, 1, 0]


def test_numbers_and_text_are_not_merged():
    with pytest.raises(ValueError, match="row 1 is 1"):
        code_labels(["1", 1, "2"], 3)
    with pytest.raises(ValueError, match="got a list"):
        code_labels([[1, 2], [3, 4]], 2)
    assert code_labels([torch.tensor(3), torch.tensor(3), 4], 3)[0].tolist() == [0, 0, 1]
    assert code_labels(np.array([b"a", b"b"]), 2)[0].tolist() == [0, 1]


def table(kind, tmp_path, **extra):
    frame = pd.DataFrame(Z, columns=[f"c{k}" for k in range(4)]).assign(**extra)
    path = tmp_path / f"z.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("label", np.arange(60) % 5),
        ("label", (np.arange(60) % 5).astype(float)),
        ("id", np.arange(60)),
        ("number", np.arange(60) + 1000),
        ("idx", np.linspace(0.5, 9.7, 60)),
    ],
)
def test_a_column_that_is_no_coordinate_is_refused_until_it_is_named(tmp_path, kind, name, values):
    path = table(kind, tmp_path, **{name: values})
    with pytest.raises(ValueError, match=rf"column '{name}'.*--ignore-column {name}"):
        load_embeddings(path)
    read = read_embeddings(path, ReadSettings(ignore=(name,)))
    np.testing.assert_allclose(read.values, Z, rtol=1e-14)
    assert any(f"column '{name}' left out" in note for note in read.notes)
    assert load_embeddings(path, ReadSettings(keep=(name,))).shape == (60, 5)
    labelled = read_embeddings(path, ReadSettings(label_column=name))
    assert labelled.values.shape == (60, 4) and len(np.unique(labelled.labels)) in (5, 60)
    with pytest.raises(ValueError, match="no column 'other'; its columns: c0"):
        load_embeddings(path, ReadSettings(ignore=("other",)))


def test_label_column_is_read_as_text(tmp_path):
    path = table("csv", tmp_path, label=["001", "1", "", "NA"] * 15)
    labels = read_embeddings(path, ReadSettings(label_column="label")).labels
    assert labels[:4].tolist() == ["001", "1", "", "NA"]


def test_an_array_with_a_column_of_whole_numbers_is_refused():
    z = np.c_[Z, np.arange(60)]
    with pytest.raises(ValueError, match=r"column '4' holds whole numbers"):
        read_embeddings(z)
    np.testing.assert_array_equal(read_embeddings(z, ReadSettings(ignore=(4,))).values, Z)
    assert read_embeddings(z, ReadSettings(keep=(4,))).values.shape == (60, 5)
    dead = np.c_[Z, np.zeros(60)]  # a unit that never fires
    assert read_embeddings(dead).values.shape == (60, 5)
    with pytest.raises(ValueError, match="column 'label'"):
        read_embeddings(pd.DataFrame(Z, columns=list("abcd")).assign(label=range(60)))


def test_whole_numbers_alone_are_taken_as_coordinates_and_said_so():
    read = read_embeddings(np.random.default_rng(0).integers(-9, 9, (60, 4)))
    assert read.values.shape == (60, 4) and "whole numbers" in read.notes[0]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint64])
def test_codes_packed_into_bits_are_refused(dtype):
    with pytest.raises(ValueError, match=r"unpackbits.*astype"):
        check_rows(np.arange(240).reshape(60, 4).astype(dtype))


def test_parquet_with_an_id_and_a_column_of_vectors(tmp_path):
    path = tmp_path / "z.parquet"
    frame = pd.DataFrame({"id": range(60), "vector": list(Z)})
    frame.to_parquet(path)
    read = read_embeddings(path)
    np.testing.assert_array_equal(read.values, Z)
    assert read.notes == ("z.parquet: column 'vector' holds the vectors; not used: id.",)
    labels = read_embeddings(path, ReadSettings(label_column="id")).labels
    assert labels.tolist() == list(range(60))
    frame.assign(second=list(Z)).to_parquet(path)
    with pytest.raises(ValueError, match="several columns of vectors"):
        load_embeddings(path)
    np.testing.assert_array_equal(load_embeddings(path, ReadSettings(ignore=("second",))), Z)
    frame.assign(embedding=list(2 * Z)).to_parquet(path)
    np.testing.assert_array_equal(load_embeddings(path), 2 * Z)
    for bad, message in (
        ([*Z[:59], Z[0][:2]], "2 numbers in row 59 and 4 in row 0"),
        ([*Z[:59], None], "no vector in row 59"),
    ):
        pd.DataFrame({"id": range(60), "vector": bad}).to_parquet(path)
        with pytest.raises(ValueError, match=message):
            load_embeddings(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_vectors_written_as_text_get_a_clear_message(tmp_path, kind):
    frame = pd.DataFrame({"embedding": [str(row.tolist()) for row in Z]})
    path = tmp_path / f"z.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    with pytest.raises(ValueError, match=r"holds vectors written as text \('\["):
        load_embeddings(path)


def test_another_separator_is_named(tmp_path):
    (tmp_path / "z.csv").write_text("\n".join(";".join(map(str, row)) for row in Z.tolist()))
    with pytest.raises(ValueError, match="separate the numbers by commas"):
        load_embeddings(tmp_path / "z.csv")


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        (None, False),
        ("a,b,c,d", True),
        ("0,1,2,3", True),
        ("1,2,3,4", True),
        ("id,0,1,2", True),
        ("0.0,1.0,2.0,3.0", False),
        ("1,2,3,5", False),
    ],
)
def test_what_is_taken_for_a_header_is_said(tmp_path, head, taken):
    path = tmp_path / "z.csv"
    body = "\n".join(",".join(map(str, row)) for row in Z.tolist()) + "\n"
    path.write_text(body if head is None else f"{head}\n{body}")
    reading = ReadSettings(keep=("id",) if head and "id" in head else ())
    read = read_embeddings(path, reading)
    assert len(read.values) == 60 + (head is not None and not taken)
    first = (head or body.split("\n")[0]).split(",")[0]
    word = f"({first}, " in read.notes[0] and "was taken for a header" in read.notes[0]
    assert ("no line was taken" in read.notes[0]) != taken and word in (True, not taken)
    if head == "0,1,2,3":
        assert len(read_embeddings(path, ReadSettings(header=False)).values) == 61


def test_lines_that_would_shift_rows_or_columns_are_refused(tmp_path):
    path = tmp_path / "z.csv"
    lines = [",".join(map(str, row)) for row in Z.tolist()]
    path.write_text("\n".join([*lines[:7], "", *lines[7:]]))
    with pytest.raises(ValueError, match="line 8 is blank"):
        load_embeddings(path)
    path.write_text("\n".join(["a,b,c", *lines]))
    with pytest.raises(ValueError, match="more cells than its first line has names"):
        load_embeddings(path)


def test_pairs_that_are_no_numbers_are_not_told_of_columns_to_ignore(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("0,1\n2,three\n4,5\n")
    with pytest.raises(ValueError, match=r"pairs\.csv.*'three'.*two row numbers") as caught:
        load_pairs(path, 10)
    assert "ignore" not in str(caught.value)


def test_pairs_have_no_numeric_header(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("0,1\n2,3\n4,5\n")
    read = read_pairs(path, 60)
    assert read.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert "no line was taken for a header, the first (0, 1) holds data" in read.notes[0]
    path.write_text("first,second\n0,1\n2,3\n")
    read = read_pairs(path, 60)
    assert read.values.tolist() == [[0, 1], [2, 3]]
    assert "the first line (first, second) was taken for a header" in read.notes[0]
    path.write_text("0,b\n2,3\n")
    with pytest.raises(ValueError, match="not numeric"):
        load_pairs(path, 60)
    path.write_text("0,1\n2,\n")
    with pytest.raises(ValueError, match="whole row numbers"):
        load_pairs(path, 60)


def test_a_missing_reader_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "z.safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'weince-lib\[diagnose\]'"):
        load_embeddings(path)


@pytest.mark.parametrize("head", ["", "label\n"])
def test_labels_are_equal_only_if_written_alike(tmp_path, head):
    path = labels_file(tmp_path, head + "001\n1\n01\n1\n")
    assert load_labels(path, 4).tolist() == [0, 1, 2, 1]


def test_labels_in_columns(tmp_path):
    pd.DataFrame({"y": ["a", None, "b"]}).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="row 1 has no label"):
        load_labels(tmp_path / "y.parquet", 3)
    with pytest.raises(ValueError, match=r"line 1 has 2 cells"):
        load_labels(labels_file(tmp_path, "0,a\n1,b\n"), 2)
