"""The checkout itself: environments, commands of the README and what must not be committed."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import torch
import yaml
from torch import nn

import weince_lib
from weince_lib.cli import main
from weince_lib.publish import notebooks

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

#: Packages that conda-forge calls something else.
CONDA_NAMES = {"torch": "pytorch"}
#: Packages that conda-forge does not have, so that pip installs them.
NOT_ON_CONDA_FORGE = {"snakemake"}
#: What an environment needs and pyproject.toml cannot name.
TOOLS = {"python", "pip"}


def tracked():
    """Files that are in git or would be with the next commit."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    # A hidden notebook is one that is being executed; it moves into place when it is whole.
    hidden = [path for path in paths if re.fullmatch(r"\..*\.ipynb", path.name)]
    return [path for path in paths if path.is_file() and path not in hidden]


def text_of(path):
    """A file's text without its images, empty for a binary file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
    # Base64 holds every word sooner or later.
    return re.sub(r'"image/png": "[^"]*"', "", text) if path.suffix == ".ipynb" else text


def lower_bounds(requirements):
    """``name>=version`` as a mapping; other requirements have no place here."""
    found = {}
    for requirement in requirements:
        name, bound = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)", requirement).groups()
        found[name] = bound
    return found


def required(*extras):
    """Lower bounds of the core dependencies and of extras, which may include each other."""
    found = lower_bounds(PROJECT["dependencies"])
    for extra in extras:
        for requirement in PROJECT["optional-dependencies"][extra]:
            included = re.fullmatch(rf"{PROJECT['name']}\[([a-z,]+)\]", requirement)
            if included:
                found |= required(*included[1].split(","))
            else:
                found |= lower_bounds([requirement])
    return found


def fenced(language):
    """The code blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def command_lines():
    """Command lines in the README: of its shell blocks, and of inline code that is one."""
    lines = [line for block in fenced("(?:bash|sh|console)") for line in block.splitlines()]
    lines += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", README)
    return [line.removeprefix("$ ").strip() for line in lines]


# Found once: pytest shows each as a case of its own.
WEINCE_LINES = [line for line in command_lines() if re.match(r"weince\s", line)]
MAKE_LINES = [line for line in command_lines() if re.match(r"make\s", line)]


def test_environment_is_in_step_with_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (section,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    bounded = [e for e in conda if re.split(r"[=<>]", e)[0] not in TOOLS]
    from_pip = [e for e in section if not e.startswith("-")]
    wanted = required("companion")
    assert lower_bounds(from_pip).keys() == NOT_ON_CONDA_FORGE & wanted.keys()
    expected = {
        CONDA_NAMES.get(name, name): bound
        for name, bound in wanted.items()
        if name not in NOT_ON_CONDA_FORGE
    }
    assert lower_bounds(bounded) == expected
    assert lower_bounds(from_pip).items() <= wanted.items()


# Put together here, so that this file does not hold what it looks for.
REGISTRY = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("anaconda", "org"),
            ("anaconda", "com"),
            ("download", "pytorch", "org"),
            ("registry", "npmjs", "org"),
        )
    )
    + "|(?:index-url|trusted-host)"
)
HOME = re.compile(
    rf"(?<![\w.])(?:/(?:home|Users|root)/\w|{re.escape(str(ROOT))}(?![\w-]))|[A-Z]:\\Users\\"
)
# Files that give such strings on purpose, to test that they are recognised.
EXEMPT = {"tests/test_repository.py", "tests/notebooks/test_committed_notebooks.py"}


@pytest.mark.parametrize("pattern", [REGISTRY, HOME], ids=["registry", "home"])
def test_no_registry_and_no_home_is_named(pattern):
    found = {}
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if name not in EXEMPT:
            found |= {f"{name}: {match[0]}": 1 for match in pattern.finditer(text_of(path))}
    assert found == {}


def make_targets():
    return set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("line", MAKE_LINES)
def test_make_commands_of_the_readme_have_a_target(line):
    assert line.split()[1] in make_targets()


@pytest.mark.parametrize("line", WEINCE_LINES)
def test_weince_commands_of_the_readme_are_understood(line, monkeypatch):
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    words = shlex.split(line, comments=True)[1:]
    with click.Context(main, info_name="weince") as context:
        command = main.get_command(context, words[0])
        assert command is not None, f"no command {words[0]!r}"
        try:
            # Parses options and arguments, and runs nothing.
            given = command.make_context(words[0], words[1:], parent=context).params
        except click.exceptions.Exit:  # --help
            return
    if words[0] == "run":
        name = notebooks.source_path(given["notebook"]).stem
        typed = {key: notebooks.parse_value(text) for key, text in given["given"]}
        notebooks.check_parameters(name, typed)


def test_readme_settings_make_a_run():
    from weince_lib.experiments import vision_config

    checked = 0
    for line in WEINCE_LINES:
        words = shlex.split(line, comments=True)
        if words[1:3] == ["run", "06_train_vision"]:
            pairs = [words[i + 1 : i + 3] for i, word in enumerate(words) if word == "-p"]
            given = {name: notebooks.parse_value(text) for name, text in pairs}
            vision_config(given.pop("profile", "quick"), **given)
            checked += 1
    assert checked


def test_training_step_of_the_readme_trains():
    (block,) = [b for b in fenced("python") if "WEINCELoss" in b]
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    before = model.weight.detach().clone()
    batches = [(torch.randn(48, 6), torch.randn(48, 6)) for _ in range(3)]
    z = []
    hook = model.register_forward_hook(lambda module, given, out: z.append(out.detach()))
    names = {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.1),
        "batches": batches,
    }
    exec(compile(block, "README.md", "exec"), names)
    hook.remove()
    assert not torch.equal(model.weight, before)
    expected = weince_lib.weince_loss(z[-2], z[-1], temperature=0.1)
    torch.testing.assert_close(names["loss"].detach(), expected)


def test_version_is_one_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"] == weince_lib.__version__
    assert citation["license"] == PROJECT["license"]


def test_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_readme_is_as_the_profiles_are():
    from weince_lib.experiments import PROFILES

    overview = (ROOT / "notebooks" / "source" / "00_overview.py").read_text(encoding="utf-8")
    for text in (README, overview.replace("# |", "|")):
        assert set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)) == set(PROFILES)
