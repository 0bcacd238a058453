"""STS files that are not quite as they should be: bytes, marks, separators, empty sentences."""

import pytest

from weince_lib.text.sts import load_sts

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n"
FILES = {
    "stsb": ("stsb/stsb-en-test.csv", "{a},b,1.0\nc,d,2.0\n"),
    "original": ("stsb/sts-test.csv", "g\tf\ty\t1\t1.0\t{a}\tb\ng\tf\ty\t2\t2.0\tc\td\n"),
    "sickr": ("SICK/SICK_test_annotated.txt", SICK + "1\t{a}\tb\t1.0\n2\tc\td\t2.0\n"),
}
#: Where the first pair stands.
ROWS = {"stsb": 1, "original": 1, "sickr": 2}


def written(root, kind, first, *, encoding="utf-8"):
    place, text = FILES[kind]
    path = root / place
    path.parent.mkdir(parents=True)
    path.write_bytes(text.format(a=first).encode(encoding))
    return path


def load(root, kind):
    return load_sts("sickr" if kind == "sickr" else "stsb", "test", root)


@pytest.mark.parametrize("kind", FILES)
def test_bytes_that_are_not_utf8_are_named(tmp_path, kind):
    path = written(tmp_path, kind, "café", encoding="latin-1")
    with pytest.raises(ValueError, match=rf"row {ROWS[kind]}: byte 0xe9 is not UTF-8.*iconv") as e:
        load(tmp_path, kind)
    assert not isinstance(e.value, UnicodeDecodeError) and str(path) in str(e.value)


@pytest.mark.parametrize("kind", FILES)
def test_a_byte_order_mark_is_no_text(tmp_path, kind):
    written(tmp_path, kind, "a", encoding="utf-8-sig")
    assert load(tmp_path, kind).first == ("a", "c")


@pytest.mark.parametrize("kind", FILES)
def test_only_line_feeds_end_a_row(tmp_path, kind):
    """U+2028, U+0085 and a form feed stand in sentences from the web."""
    odd = "one\u2028two\u0085three\ffour"
    written(tmp_path, kind, odd)
    assert load(tmp_path, kind).first == (odd, "c")


@pytest.mark.parametrize("kind", FILES)
def test_carriage_returns_belong_to_the_line_end(tmp_path, kind):
    path = written(tmp_path, kind, "a")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    pairs = load(tmp_path, kind)
    assert (pairs.second, pairs.scores.tolist()) == (("b", "d"), [1.0, 2.0])


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("kind", FILES)
def test_an_empty_sentence_is_refused(tmp_path, kind, empty):
    written(tmp_path, kind, empty)
    with pytest.raises(ValueError, match=rf"row {ROWS[kind]}: a sentence is '{empty}'.*drop"):
        load(tmp_path, kind)


def test_a_years_files_too(tmp_path):
    folder = tmp_path / "STS" / "STS13-en-test"
    folder.mkdir(parents=True)
    for part in ("FNWN", "headlines", "OnWN"):
        (folder / f"STS.input.{part}.txt").write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
        (folder / f"STS.gs.{part}.txt").write_bytes(b"\xef\xbb\xbf1\r\n\r\n")
    pairs = load_sts("sts13", "test", tmp_path)  # the pair without a score is left out
    assert (pairs.first, pairs.second) == (("a",) * 3, ("b",) * 3)
    (folder / "STS.input.OnWN.txt").write_bytes(b"a\tb\nc\xff\td\n")
    with pytest.raises(ValueError, match=r"OnWN\.txt, row 2: byte 0xff is not UTF-8"):
        load_sts("sts13", "test", tmp_path)
