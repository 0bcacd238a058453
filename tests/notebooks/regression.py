"""Notebook regression with numbers compared as far as they are printed: a layer on nbval.

    python -m pytest -p tests.notebooks.regression --nbval --nbval-current-env notebooks

Each code cell is executed and its output compared with the committed one:

- Text and structure must be the same. Runs of spaces count as one, since columns are aligned by
  the width of their numbers.
- A number with decimals or an exponent may differ by one unit in the last place that either of the
  two prints. Another processor rounds differently, and a value close to the middle between two
  printed ones then falls to the other side.
- A whole number is a count, an index or a name, and must be the same, unless a percent sign follows
  it: then it is a rounded value and may differ by one.
- A cell whose numbers come from a training run of its own states a band in a tag, for example
  ``# %% tags=["band=0.5"]`` in its source. Its numbers, whole ones too, may differ by that much.

Figures are not compared, as in nbval alone.
"""

from __future__ import annotations

import copy
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import pytest
from nbval.plugin import IPyNbCell

from weince_lib.publish.notebooks import NOT_FOR_KERNELS

#: A number that stands by itself: not within a word (``resnet18``), a version or an address.
NUMBER = re.compile(
    r"(?<![\w.])[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
    r"(?!\w|\.[0-9])"
)
PERCENT = re.compile(r"[ \u00a0\u202f]?\\?%")
BAND = "band="
#: Keys of an output that say what kind it is, and hold nothing that a reader sees.
KIND = ("output_type", "metadata", "execution_count", "name")


def pytest_configure(config: pytest.Config) -> None:
    """Keep from the kernels what ``weince run`` does: without ``assert`` much would pass."""
    for name in NOT_FOR_KERNELS:
        os.environ.pop(name, None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let nbval compare the cell by the rules above."""
    if isinstance(item, IPyNbCell):
        try:
            band = stated_band(item.cell.metadata.get("tags", []))
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error
        item.compare_outputs = partial(compare_outputs, item, band)


def compare_outputs(
    item: IPyNbCell, band: Decimal, test: Sequence[Any], ref: Sequence[Any], *more: Any
) -> bool:
    """nbval's own comparison, after numbers that agree were given the reference's spelling.

    What nbval then reports as different are the numbers and words that count.
    """
    return bool(IPyNbCell.compare_outputs(item, in_spelling_of(test, ref, band), ref, *more))


def stated_band(tags: Iterable[str]) -> Decimal:
    """How far the numbers of a cell may move, by its tag ``band=...``; 0 without one.

    Raises:
        ValueError: if it is no positive number, or there is more than one.
    """
    found = [tag for tag in tags if tag.startswith(BAND)]
    if not found:
        return Decimal(0)
    try:
        (band,) = (Decimal(tag.removeprefix(BAND)) for tag in found)
    except (InvalidOperation, ValueError):
        band = Decimal(0)
    if not (band.is_finite() and band > 0):
        raise ValueError(f"tags {found} must be one band, a positive number such as 'band=0.5'")
    return band


def in_spelling_of(test: Sequence[Any], ref: Sequence[Any], band: Decimal) -> list[Any]:
    """A cell's outputs with each text spelt as the reference's where the two agree.

    As in nbval, the first text of a kind belongs to the first of that kind in the reference.
    """
    waiting: dict[str, list[str]] = defaultdict(list)
    for output in ref:
        for holder, key in _texts(output):
            waiting[_kind(output, key)].append(holder[key])
    fresh = copy.deepcopy(list(test))
    for output in fresh:
        for holder, key in _texts(output):
            if waiting[_kind(output, key)]:
                holder[key] = spelt(holder[key], waiting[_kind(output, key)].pop(0), band)
    return fresh


def spelt(test: str, ref: str, band: Decimal = Decimal(0)) -> str:
    """A text with its numbers spelt as the reference's where they agree, and its spaces too.

    Args:
        test: the text.
        ref: the reference.
        band: how far numbers may differ, beyond the units they are printed in.

    Returns:
        ``ref`` itself exactly if the two agree.
    """
    ours, theirs = list(NUMBER.finditer(test)), list(NUMBER.finditer(ref))
    if len(ours) != len(theirs):
        return test
    numbers = [
        b[0] if agree(a[0], b[0], band, percent=bool(PERCENT.match(ref, b.end()))) else a[0]
        for a, b in zip(ours, theirs, strict=True)
    ]
    words, other = NUMBER.split(test), NUMBER.split(ref)
    if _spaces(words) == _spaces(other):
        words = other
    return "".join(part for pair in zip(words, [*numbers, ""], strict=True) for part in pair)


def agree(test: str, ref: str, band: Decimal = Decimal(0), *, percent: bool = False) -> bool:
    """Whether two printed numbers may stand for the same value.

    Args:
        test: one number as printed.
        ref: the other.
        band: how far they may differ, beyond the unit they are printed in.
        percent: whether a percent sign follows, which makes a whole number a rounded value.
    """
    (a, unit_a), (b, unit_b) = _read(test), _read(ref)
    whole = not re.search("[.eE]", test + ref)
    # The finer of the two: a number whose last zeros were cut off is known to more places.
    unit = Decimal(0) if whole and not percent else min(unit_a, unit_b)
    return abs(a - b) <= max(unit, band)


def _read(number: str) -> tuple[Decimal, Decimal]:
    """The value, and the unit of its last printed place."""
    value = Decimal(number.replace(",", "").replace("\u2212", "-"))
    return value, Decimal(1).scaleb(int(value.as_tuple().exponent))


def _spaces(words: list[str]) -> str:
    """The words between numbers, with runs of spaces as one and none at the ends of lines."""
    text = re.sub(r"[ \t]+", " ", "\0".join(words))
    return re.sub(r" ?\n ?", "\n", text).strip(" ")


def _texts(output: Any) -> list[tuple[Any, str]]:
    """Where an output's texts are: mappings, each with a key."""
    holders = [(output, key) for key in output if key not in KIND]
    holders += [(output["data"], key) for key in output.get("data", {})]
    return [(holder, key) for holder, key in holders if isinstance(holder[key], str)]


def _kind(output: Any, key: str) -> str:
    return f"{output['name']}.{key}" if output["output_type"] == "stream" else key
