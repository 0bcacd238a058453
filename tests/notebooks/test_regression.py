"""What notebook regression lets pass and what it does not."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from decimal import Decimal
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.notebooks.regression import agree, spelt, stated_band

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("test", "ref"),
    [
        ("0.27", "0.28"),
        ("-0.01", "0.00"),
        ("\u22120.31", "-0.32"),
        ("1.19", "1.2"),  # 1.20, whose last zero is not printed
        ("9.9e-06", "1.0e-05"),
        ("1,000.0", "999.9"),
        ("1,234", "1234"),
    ],
)
def test_one_unit_in_the_last_printed_place_agrees(test, ref):
    assert agree(test, ref)
    assert agree(ref, test)


@pytest.mark.parametrize(
    ("test", "ref"),
    [
        ("0.27", "0.29"),
        ("-0.27", "0.27"),
        ("0.998", "1"),
        ("2.7e-05", "2.7e-06"),
        ("12", "13"),
    ],
)
def test_two_units_or_another_count_do_not_agree(test, ref):
    assert not agree(test, ref)
    assert not agree(ref, test)


def test_a_whole_number_of_percent_is_a_rounded_value():
    for sign in ("%", " %", "\u00a0%", r"\%"):
        assert spelt(f"82{sign} lose", f"83{sign} lose") == f"83{sign} lose"
        assert spelt(f"81{sign} lose", f"83{sign} lose") != f"83{sign} lose"


def test_a_band_holds_for_all_numbers_of_a_cell():
    band = Decimal("0.5")
    assert agree("93.71", "94.21", band)
    assert not agree("93.70", "94.21", band)
    assert not agree("7", "8", band)  # half a seed more is no seed more
    assert agree("7", "8", Decimal(1))


@pytest.mark.parametrize("tags", [["band=0"], ["band=-1"], ["band=x"], ["band=1", "band=2"]])
def test_a_band_that_is_none_is_refused(tags):
    with pytest.raises(ValueError, match=tags[0]):
        stated_band(tags)


@pytest.mark.parametrize(
    ("test", "ref"),
    [
        ("resnet18", "resnet19"),
        ("torch 2.14.1", "torch 2.14.2"),
        ("886d36", "886d37"),
        ("0.27", "0.27 0.27"),
        ("NaN", "0.27"),
        ("0.27\n0.28", "0.27 0.28"),
    ],
)
def test_words_and_structure_are_compared_exactly(test, ref):
    assert spelt(test, ref) != ref


def test_columns_may_move_with_the_width_of_their_numbers():
    ref = "          gain\nseed          \n7        10.00\n21       -0.01"
    test = "         gain\nseed         \n7         9.99\n21        0.00"
    assert spelt(test, ref) == ref


#: Cells that print one thing when they are committed and another when they are tested.
TABLE = "import pandas as pd\npd.DataFrame({{'gain': {}}}, index={})"
CELLS = {
    "same": ("print('gain 0.27 over 4 seeds')", "print('gain 0.27 over 4 seeds')", []),
    "one unit": ("print('gain 0.27')", "print('gain 0.28')", []),
    "one unit in a table": (
        TABLE.format([0.27, 9.99], ["a", "b"]),
        TABLE.format([0.28, 10.0], ["a", "b"]),
        [],
    ),
    "within its band": ("print('accuracy 94.01')", "print('accuracy 94.50')", ["band=0.5"]),
    "two units": ("print('gain 0.27')", "print('gain 0.29')", []),
    "beyond its band": ("print('accuracy 94.01')", "print('accuracy 94.52')", ["band=0.5"]),
    "another word": ("print('gain 0.27')", "print('loss 0.27')", []),
    "a number less in a table": (
        TABLE.format([0.27, 9.99], ["a", "b"]),
        TABLE.format([0.27], ["a"]),
        [],
    ),
    "no output": ("print('gain 0.27')", "pass", []),
    "an output more": ("pass", "print('gain 0.27')", []),
}
PASS = ("same", "one unit", "one unit in a table", "within its band")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Whether each cell passes, from nbval itself in a process of its own."""
    folder = tmp_path_factory.mktemp("regression")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(then, metadata={"tags": tags})
            for then, _, tags in CELLS.values()
        ]
    )
    NotebookClient(notebook, kernel_name="python3").execute()
    for cell, (_, now, _) in zip(notebook.cells, CELLS.values(), strict=True):
        cell.source = now  # its output stays that of the cell as it was
    path = folder / "cells.ipynb"
    nbformat.write(notebook, path)
    report = folder / "report.xml"
    words = [sys.executable, "-m", "pytest", "-p", "tests.notebooks.regression", "--nbval"]
    words += ["--nbval-current-env", "-p", "no:cacheprovider", "-q", f"--junit-xml={report}"]
    subprocess.run([*words, str(path)], cwd=ROOT, capture_output=True, timeout=300)
    found = ElementTree.parse(report).iter("testcase")
    return dict(zip(CELLS, [case.find("failure") is None for case in found], strict=True))


@pytest.mark.parametrize("case", CELLS)
def test_regression_with_nbval(outcomes, case):
    assert outcomes[case] is (case in PASS)
