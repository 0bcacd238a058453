"""The ``weince`` command: what it prints, its exit codes, and one line for bad input."""

import errno
import os
import re
import shutil

import nbformat
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.experiments import PROFILES, Metric, load_results
from weince_lib.publish import notebooks
from weince_lib.records import store
from weince_lib.runs.config import profile_stamp

NOTEBOOK = """\
# %% tags=["parameters"]
seed = 7
loss = "weince"

# %%
if seed > 50:
    raise ValueError(f"seed {seed} is too large")
print(seed, loss)
"""
CLAIMS = """
[[claim]]
id = "accuracy-is-high"
label = "Table 2"
section = "4.1"
notebook = "01_tiny"
statement = "Accuracy is high."
doubt = "On digits it always is."
paper = {table = "2", loss = "infonce"}
[claim.ours]
rule = "above"
value = 50
quantity = "accuracy, %"
where = {metric = "linear_accuracy", split = "test"}

[[claim]]
id = "it-converges"
label = "Theorem 2.2"
section = "2"
notebook = "02_extreme_values"
statement = "It converges."
"""
REPORTED = """\
table,dataset,encoder,loss,metric,value,ci95,source
2,STL10,resnet18,infonce,linear_accuracy,76.54,0.32,published
"""


@pytest.fixture(autouse=True)
def companion(tmp_path, monkeypatch):
    """A companion with one small notebook and two claims; the checkout stays out of reach."""
    home = tmp_path / "companion"
    (home / "notebooks" / "source").mkdir(parents=True)
    (home / "notebooks" / "source" / "01_tiny.py").write_text(NOTEBOOK)
    (home / "paper" / "reported").mkdir(parents=True)
    (home / "paper" / "reported" / "reported.csv").write_text(REPORTED)
    (home / "paper" / "claims.toml").write_text(CLAIMS)
    monkeypatch.setenv("WEINCE_HOME", str(home))
    for name in ("RUNS", "RESULTS", "FIGURES"):
        monkeypatch.setenv(f"WEINCE_{name}", str(tmp_path / name.lower()))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return home


@pytest.fixture
def no_execution(monkeypatch):
    """Papermill replaced by a stand-in that keeps the parameters it was called with."""
    calls = []

    def execute(source, target, **given):
        calls.append(given)

    monkeypatch.setattr("papermill.execute_notebook", execute)
    return calls


def weince(*words):
    return CliRunner().invoke(main, words)


def one_line_error(result, *words, code=1):
    """Assert that a command failed with one line on stderr that holds all the words."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")
    for word in words:
        assert word in result.stderr


def save_run(seed, value, profile="quick"):
    labels = {
        "profile": profile_stamp(profile),
        "dataset": "digits",
        "encoder": "resnet-small",
        "loss": "infonce",
        "temperature": 0.5,
        "seed": seed,
    }
    metrics = [Metric("linear_accuracy", value, "test", 1)]
    return store.save("vision", {"seed": seed}, metrics, labels=labels, started=0.0)


@pytest.mark.parametrize("words", [["--help"], ["-h"], *([n, "--help"] for n in main.commands)])
def test_help_is_there_for_every_command(words):
    result = weince(*words)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


def test_ctrl_c_is_one_line_in_every_command(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("weince_lib.studies.collect.collect", interrupted)
    save_run(7, 90.0)
    result = weince("collect")
    assert result.exit_code == 130
    assert (result.stdout, result.stderr) == ("", "stopped\n")


def test_retraining_a_seed_without_committed_numbers_is_one_line():
    one_line_error(weince("retrain", "--seed", "5"), "seed 5", "7, 21, 63, 84")


def test_run_with_a_misspelt_parameter_is_one_line(no_execution, tmp_path):
    result = weince("run", "01_tiny", "-p", "sede", "3")
    one_line_error(result, "01_tiny", "'sede'", "'seed'", "seed, loss")
    assert no_execution == []
    assert not (tmp_path / "runs").exists()


def test_run_of_an_unknown_notebook_is_one_line(no_execution):
    one_line_error(weince("run", "99_tiny"), "'99_tiny'", "known: 01_tiny")
    assert no_execution == []


@pytest.mark.parametrize("named", ["01_tiny", "01_tiny.ipynb", "notebooks/source/01_tiny.py"])
def test_run_passes_typed_parameters_and_prints_the_copy(no_execution, tmp_path, named):
    result = weince("run", named, "-p", "seed", "21", "-p", "loss", "infonce", "--timeout", "5")
    assert result.exit_code == 0, result.output
    target = tmp_path / "runs" / "notebooks" / "01_tiny--loss=infonce,seed=21.ipynb"
    assert result.stdout.strip() == str(target)
    assert nbformat.read(target, as_version=4).cells
    (call,) = no_execution
    assert call["parameters"] == {"seed": 21, "loss": "infonce"}
    assert call["execution_timeout"] == 5


@pytest.mark.parametrize(("profile", "limit"), [("quick", 600), ("paper", -1), ("", 600)])
def test_only_the_quick_profile_has_a_time_limit_of_its_own(
    no_execution, companion, profile, limit
):
    source = companion / "notebooks" / "source" / "01_tiny.py"
    source.write_text(NOTEBOOK.replace("seed = 7", 'seed = 7\nprofile = "quick"'))
    assert weince("run", "01_tiny", *(["-p", "profile", profile] if profile else [])).exit_code == 0
    assert [call["execution_timeout"] for call in no_execution] == [limit]


def test_run_where_nothing_can_be_written_is_one_line(no_execution, tmp_path):
    (tmp_path / "file").write_text("no folder")
    target = str(tmp_path / "file" / "copy.ipynb")
    one_line_error(weince("run", "01_tiny", "-o", target), str(tmp_path / "file"))
    assert no_execution == []


def test_run_on_a_full_disk_is_one_line(monkeypatch):
    def execute(source, target, **given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    monkeypatch.setattr("papermill.execute_notebook", execute)
    one_line_error(weince("run", "01_tiny"), "01_tiny", "No space left", "free some space")


def test_run_with_a_long_parameter_has_a_name_that_can_be_written(no_execution, tmp_path):
    names = set()
    for letter in "ab":
        text = "x" * 250 + letter
        result = weince("run", "01_tiny", "-p", "loss", text)
        assert result.exit_code == 0, result.output
        names.add(result.stdout)
        assert no_execution[-1]["parameters"] == {"loss": text}
    assert len(names) == 2


def test_run_that_fails_is_one_line_and_keeps_the_earlier_copy(tmp_path):
    # The one test here that starts a kernel.
    copy = tmp_path / "copy.ipynb"
    copy.write_text("old")
    result = weince("run", "01_tiny", "-p", "seed", "99", "-o", str(copy))
    one_line_error(result, "01_tiny", "ValueError", "seed 99 is too large")
    assert copy.read_text() == "old"
    failed = nbformat.read(tmp_path / "copy.failed.ipynb", as_version=4)
    errors = [o for c in failed.cells for o in c.get("outputs", []) if o.output_type == "error"]
    assert "seed 99 is too large" in [error.evalue for error in errors]


def test_notebooks_rebuilds_all_or_those_named(no_execution, companion):
    (companion / "notebooks" / "source" / "02_next.py").write_text(NOTEBOOK)
    result = weince("notebooks", "02_next")
    assert result.stdout.split() == [str(companion / "notebooks" / "02_next.ipynb")]
    result = weince("notebooks")
    names = [str(companion / "notebooks" / f"{name}.ipynb") for name in notebooks.names()]
    assert result.stdout.split() == names
    assert [call["parameters"] for call in no_execution] == [{}] * 3


def test_notebooks_of_an_unknown_name_is_one_line_before_anything_runs(no_execution):
    one_line_error(weince("notebooks", "01_tiny", "99_tiny"), "'99_tiny'", "01_tiny")
    assert no_execution == []


def test_collect_writes_the_table_and_says_so(tmp_path):
    made = [save_run(seed, 90.0) for seed in (7, 21)]
    save_run(63, 90.0, profile="cpu")
    result = weince("collect")
    assert result.exit_code == 0
    assert str(tmp_path / "results" / "quick.csv") in result.stdout
    assert sorted(load_results("quick")["key"]) == sorted(record.key for record in made)


def test_collect_keeps_rows_whose_records_are_elsewhere_unless_told_otherwise():
    records = [save_run(seed, 90.0) for seed in (7, 21)]
    weince("collect")
    shutil.rmtree(records[0].folder)
    weince("collect")
    assert set(load_results("quick")["key"]) == {record.key for record in records}
    weince("collect", "--fresh")
    assert set(load_results("quick")["key"]) == {records[1].key}


def test_collect_names_a_damaged_record_skips_and_keeps_it():
    good, bad = save_run(7, 90.0), save_run(21, 91.0)
    bad.path.write_text("{")
    result = weince("collect")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert str(bad.path) in line
    assert bad.path.read_text() == "{"
    assert list(load_results("quick")["key"]) == [good.key]


@pytest.mark.parametrize("command", ["collect", "claims"])
def test_unknown_profile_is_one_line_with_the_known_ones(command, tmp_path):
    one_line_error(weince(command, "--profile", "qiuck"), "'qiuck'", *PROFILES)
    assert not (tmp_path / "results").exists()


def test_claims_prints_claim_both_values_verdict_and_records():
    records = [save_run(seed, value) for seed, value in ((7, 90.0), (21, 91.0), (63, 92.0))]
    weince("collect")
    result = weince("claims")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert text.startswith("measured here, with limits Table 2: accuracy-is-high")
    # t(0.975, 2) = 4.3027; half the interval is 4.3027 / sqrt(3).
    for part in ("Accuracy is high.", "76.54 ± 0.32", "91.00 [88.52, 93.48]", "3 encoder seeds"):
        assert part in text
    for record in records:
        assert record.key in text
    assert "open Theorem 2.2: it-converges" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('rule = "above"', 'rule = "over"', ["'over'", "above"]),
        ("split =", "splt =", ["splt"]),
        ('section = "2"', "", ["section"]),
        ("[[claim]]", "[[claim", ["claims.toml"]),
    ],
    ids=["rule", "column", "missing", "syntax"],
)
def test_mistake_in_the_list_of_claims_is_one_line(companion, old, new, words):
    path = companion / "paper" / "claims.toml"
    path.write_text(CLAIMS.replace(old, new))
    save_run(7, 90.0)
    weince("collect")
    one_line_error(weince("claims"), *words)


def test_lock_writes_exact_versions_in_order(tmp_path):
    target = tmp_path / "pins.txt"
    result = weince("lock", "-o", str(target))
    assert result.exit_code == 0
    pins = [line for line in target.read_text().splitlines() if not line.startswith("#")]
    marker = r"( ; platform_machine == \"x86_64\")?"
    assert all(re.fullmatch(r"[a-z0-9-]+==[^\s=]+" + marker, pin) for pin in pins)
    names = [pin.partition("==")[0] for pin in pins]
    assert names == sorted(set(names))
    assert {"torch", "numpy", "scipy", "click", "scikit-learn"} <= set(names)
    assert not {"weince-lib", "pip"} & set(names)
    assert not [name for name in names if name.startswith("nvidia-")]
