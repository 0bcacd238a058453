"""The PDF: made from data and nothing else, the same each time, and in step with its sources."""

import re
from pathlib import Path

import pytest

from weince_lib.publish import companion

typst = pytest.importorskip("typst", reason="make paper needs typst")

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "paper" / "companion.typ").read_text(encoding="utf-8")
PDF = ROOT / "paper" / "companion.pdf"
#: Decimals in the document that are settings or quantiles, and not results.
SETTINGS = {"0.99", "0.5", "0.2", "0.1"}


@pytest.fixture(scope="module")
def gathered():
    """What the document shows of the committed results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEINCE_RESULTS", str(ROOT / "paper" / "results"))
        return companion.gather()


def test_same_sources_give_the_same_bytes_and_any_change_another_stamp(gathered):
    assert companion.render(gathered) == companion.render(gathered)
    text = companion.as_text(gathered)
    assert companion.sources(text) != companion.sources(f"{text} ")


def test_committed_pdf_is_of_these_sources(gathered):
    stamp = companion.sources(companion.as_text(gathered))
    assert f"sources {stamp}".encode() in PDF.read_bytes(), "run `make paper` and commit the PDF"


def test_no_measured_number_is_typed():
    prose = re.sub(r"^//.*$", "", DOCUMENT, flags=re.MULTILINE)
    prose = re.sub(r"\d*\.?\d+(pt|em|in|%)", "", prose)
    prose = re.sub(r"arXiv:[\d.]+|#eqn\(\"[\d.]+\"|Equations? \d\.\d|\(\d\.\d\)", "", prose)
    prose = re.sub(r'"[a-z0-9/_-]+"', "", prose)  # names of claims and checks
    assert set(re.findall(r"\d+\.\d+", prose)) <= SETTINGS
    # A percentage is a level or a layout's width; the one level is that of the intervals.
    assert set(re.findall(r"(\d+) %", DOCUMENT)) <= {"95"}


def test_everything_quoted_is_there(gathered):
    claims = {c["id"]: c for c in gathered["claims"]}
    for name in re.findall(r'#(?:val|verdict|claim)\("([^"]+)"\)', DOCUMENT):
        assert name in claims
        if not name.endswith("consistent-gain"):  # a study that may not have been run
            assert claims[name]["value"], name
    for notebook, metric in re.findall(r'#check\("([^"]+)", "([^"]+)"\)', DOCUMENT):
        assert gathered["checks"][notebook][metric]
    for key in re.findall(r'#rep\("([^"]+)"\)', DOCUMENT):
        assert gathered["reported"][key]
    leads = {line[0] for line in gathered["decisions"]["answer"]}
    assert set(re.findall(r'#said\("([^"]+)"\)', DOCUMENT)) <= leads
    for name in re.findall(r'picture\("([a-z0-9_]+)"', DOCUMENT):
        assert (ROOT / "figures" / f"{name}.pdf").exists()


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("hard-negatives-carry-the-evidence", "measured here, with limits"),
        ("larger-pool-carries-the-evidence", "measured here, with limits"),
        ("gate-follows-the-evidence", "does not hold here"),
        ("figure-3-endpoint-shape", "measured here, with limits"),
        ("figure-4-held-out-gain", "measured here, with limits"),
        ("figure-6-weibit-is-closer", "measured here, with limits"),
        ("table-5-frechet-alone", "measured here, with limits"),
        ("figure-8-larger-pool", "measured here, with limits"),
    ],
)
def test_text_around_a_verdict_still_fits_it(name, verdict, gathered):
    """The document's sentences were written for these verdicts."""
    (found,) = [c["verdict"] for c in gathered["claims"] if c["id"] == name]
    assert found == verdict


def test_document_without_a_record_says_not_run_yet():
    # Typst stops at a name it does not find, so that a whole document lacks none.
    assert companion.render(companion.gather()).startswith(b"%PDF-")
