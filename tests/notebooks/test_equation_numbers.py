"""Equations have the paper's numbers, in notebooks and in the PDF, each on the same formula."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Number, notebook, a piece of the formula there, and of the PDF's (empty: not in the PDF).
NUMBERED = [
    ("2.2", "01_plackett_luce", r"L_i = -\log \frac{e^{s_{ii^+}/\tau}}", "cal(L)_i = -log"),
    ("2.3", "01_plackett_luce", r"U_j = \frac{s_j}{\tau} + \varepsilon_j", "U_j = s_j"),
    ("2.5", "02_extreme_values", r"\frac{\bar F(b_n + a_n x)}{\bar F(b_n)}", "(overline(F)(b_n + "),
    ("A.3", "14_proof_checks", r"\alpha(st) = \alpha(s)\,\alpha(t)", ""),
    ("A.4", "14_proof_checks", r"\beta(st) = \alpha(s)\,\beta(t)", ""),
    ("3.1", "05_weince_loss", r"\ell_{ij} = (1 - \lambda_i)", "ell_(i j) = (1 - lambda_i)"),
    ("3.1", "12_what_drives_the_gain", r"\ell_{ij} = (1-\lambda_i)", ""),
    ("3.2", "05_weince_loss", r"\lambda_i = \sigma", "lambda_i = sigma"),
]


def in_notebooks():
    """(number, notebook) and the formula's text."""
    found = {}
    for path in sorted((ROOT / "notebooks" / "source").glob("*.py")):
        text = re.sub(r"^# ?", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
            for number in re.findall(r"\\tag\{(.+?)\}", formula):
                assert (number, path.stem) not in found, f"{path.stem} has {number} twice"
                found[number, path.stem] = formula
    return found


def test_every_number_in_the_notebooks_is_in_the_table_and_the_other_way_round():
    assert set(in_notebooks()) == {(number, name) for number, name, *_ in NUMBERED}


@pytest.mark.parametrize(("number", "name", "piece"), [row[:3] for row in NUMBERED])
def test_a_number_stands_on_the_papers_formula(number, name, piece):
    assert piece in in_notebooks()[number, name]


def test_the_pdf_numbers_the_same_formulas():
    document = (ROOT / "paper" / "companion.typ").read_text(encoding="utf-8")
    lines = dict(re.findall(r'^#eqn\("(.+?)", (.+)$', document, re.MULTILINE))
    pieces = {number: piece for number, _, _, piece in NUMBERED if piece}
    assert lines.keys() == pieces.keys()
    for number, piece in pieces.items():
        assert piece in lines[number], number
