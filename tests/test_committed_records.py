"""Every committed number leads to the line that says what it was made with."""

import json
from pathlib import Path

import pandas as pd
import pytest

from weince_lib.experiments import decide_all
from weince_lib.records import store
from weince_lib.records.record_lines import SUFFIX, lines_path, read_lines

RESULTS = Path(__file__).parents[1] / "paper" / "results"


def keys_of(table: Path) -> set[str]:
    """Keys of a table's records; none for one that is no table of records."""
    frame = pd.read_csv(table, dtype=str)
    return set(frame["key"]) if "key" in frame.columns else set()


TABLES = {path.stem: path for path in sorted(RESULTS.glob("**/*.csv")) if keys_of(path)}
LINES = {path.name.removesuffix(SUFFIX): path for path in sorted(RESULTS.glob(f"**/*{SUFFIX}"))}


def test_there_are_tables() -> None:
    assert {"quick", "cpu-fashion", "cpu-static"} <= TABLES.keys()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_record_of_a_table_has_its_line_and_no_other_has(name: str) -> None:
    assert read_lines(lines_path(TABLES[name])).keys() == keys_of(TABLES[name])


def test_every_record_behind_a_claim_has_its_line() -> None:
    known = set().union(*(read_lines(path) for path in LINES.values()))
    cited = {key for decision in decide_all() for key in decision.records}
    assert cited
    assert cited - known == set()


@pytest.mark.parametrize("path", LINES.values(), ids=LINES.keys())
def test_lines_are_sorted_small_and_their_keys_are_the_hash_of_their_config(path: Path) -> None:
    lines = read_lines(path)
    assert list(lines) == sorted(lines)
    assert path.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in lines.values())
    assert path.stat().st_size < 1e6
    for key, line in lines.items():
        found = json.loads(line)
        assert store.content_key(found["experiment"], found["config"]) == key
        assert {"commit", "dirty", "versions", "cpu"} <= found["provenance"].keys()
