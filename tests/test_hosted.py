"""The notebooks' first cell where the library is missing, as in Colab: nothing changes its version.

Offline and in seconds: a virtual environment sees this one's packages through links, but torch and
numpy say that they are other releases, and one package that the notebooks need is missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import jupytext
import pytest

from weince_lib import hosted
from weince_lib.publish import badges

ROOT = Path(__file__).parents[1]
OTHER = {"torch": "2.9.7+cu126", "numpy": "1.26.99"}
MISSING = "timm"
#: Missing too, and not to be installed.
ABSENT = "jupyterlab|snakemake"
#: Run after the cell, in the same process, as the notebook's next cells are.
AFTER = """
import json, sys
from importlib import metadata
import weince_lib
from weince_lib import paths
from weince_lib.experiments import vision_config
from weince_lib.publish import notebooks
print(json.dumps({
    "prefix": sys.prefix,
    "versions": {n: metadata.version(n) for n in ("torch", "numpy", "weince-lib", "timm")},
    "root": str(paths.root()),
    "notebooks": notebooks.names(),
    "dataset": vision_config("colab").dataset,
}))
"""


def wheel(folder, name, version, needs=()):
    """A wheel with one module that does nothing."""
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}/__init__.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    records = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in (files | {f"{info}/RECORD": records}).items():
            archive.writestr(file, text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository as a reader would clone it: this tree, committed, with a tag."""
    folder = tmp_path_factory.mktemp("origin") / "companion"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "weince_lib", folder / "weince_lib", ignore=skip)
    shutil.copytree(ROOT / "notebooks" / "source", folder / "notebooks" / "source", ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "x"), ("tag", "v1")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def host(tmp_path):
    """Python of a fresh environment with other releases of torch and numpy, without the library."""
    for package in ("hatchling", "editables"):
        pytest.importorskip(package, reason="offline, pip builds with what is installed")
    seen = tmp_path / "preinstalled"
    seen.mkdir()
    hidden = re.compile(
        rf"(?i)(?:_?{MISSING}|{ABSENT}|weince_lib|_?_?editable__*_?weince.*|_weince_lib)(?:[-.].*)?"
        rf"|(?:{'|'.join(OTHER)})-.*\.dist-info|.*\.pth"
    )
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for entry in (path for place in places for path in Path(place).iterdir()):
        if not hidden.fullmatch(entry.name):
            (seen / entry.name).symlink_to(entry)
    for name, version in OTHER.items():
        info = seen / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "preinstalled.pth").write_text(f"{seen}\n")
    return home / "bin" / "python"


def run_cell(python, repository, tmp_path):
    """Run the setup cell and what follows it."""
    cell = jupytext.reads(badges.setup_cell("ada/x", "v1"), fmt="py:percent").cells[0].source
    assert "https://github.com/ada/x" in cell
    script = tmp_path / "cell.py"
    script.write_text(cell.replace("https://github.com/ada/x", repository.as_uri()) + AFTER)
    content = tmp_path / "content"
    content.mkdir(exist_ok=True)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "WEINCE", "PIP", "GIT", "COV"))
    }
    offline = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        # Pip takes 0 here for "without": the backend that is installed builds.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_CONFIG_FILE": os.devnull,
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [str(python), str(script)],
        cwd=content,
        env=clean | offline,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.slow
def test_cell_installs_the_library_and_what_is_missing_and_nothing_else(host, repository, tmp_path):
    wheel(tmp_path / "wheels", MISSING, "2.99.0", needs=["tqdm", "numpy"])
    done = run_cell(host, repository, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["prefix"]) == host.parents[1]
    own = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert found["versions"] == OTHER | {MISSING: "2.99.0", "weince-lib": own}
    assert Path(found["root"]) == tmp_path / "content" / "weince"
    assert "05_weince_loss" in found["notebooks"]
    assert found["dataset"] == "cifar10"
    (packages,) = host.parents[1].glob("lib/python*/site-packages")
    new = {p.name.partition("-")[0] for p in packages.glob("*.dist-info")}
    assert new == {MISSING, "weince_lib"}
    # Once more, as after a restart of the kernel: it is there, and nothing is fetched.
    shutil.rmtree(tmp_path / "wheels")
    again = run_cell(host, tmp_path / "gone", tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1]) == found


@pytest.mark.slow
def test_a_package_that_wants_another_numpy_is_refused_and_numpy_stays(host, repository, tmp_path):
    wheel(tmp_path / "wheels", MISSING, "2.99.0", needs=["numpy>=2"])
    wheel(tmp_path / "wheels", "numpy", "2.5.0")
    done = run_cell(host, repository, tmp_path)
    assert done.returncode != 0
    assert "HostedError: pip install failed" in done.stderr
    assert "numpy" in done.stderr
    (packages,) = host.parents[1].glob("lib/python*/site-packages")
    assert not list(packages.glob("numpy*"))


def test_without_an_address_the_cell_says_what_to_do(host, tmp_path):
    cell = jupytext.reads(badges.setup_cell(None), fmt="py:percent").cells[0].source
    done = subprocess.run(
        [str(host), "-I", "-c", cell], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode != 0
    assert "README.md" in done.stderr


def test_where_the_library_is_the_cell_does_nothing(tmp_path):
    cell = jupytext.reads(badges.setup_cell("ada/x", "v1"), fmt="py:percent").cells[0].source
    done = subprocess.run(
        [sys.executable, "-c", cell],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_older_packages_of_the_host_are_named_and_others_are_not():
    wanted = ["torch>=2.9", "scikit_learn>=1.5", "numpy>=2.0", "scipy >= 1.14.0", "tqdm", "timm>=1"]
    here = {"torch": "2.8.0+cu126", "scikit-learn": "1.10.2", "numpy": "2", "scipy": "1.9"}
    torch, scipy = hosted.older(hosted.wanted(wanted), here)
    assert torch.startswith("torch 2.8.0+cu126") and ">=2.9" in torch
    assert scipy.startswith("scipy 1.9") and ">=1.14.0" in scipy


def test_constraints_hold_every_installed_version_that_pip_can_read():
    text = hosted.constraints({"torch": "2.9.7+cu126", "odd": "unknown", "numpy": "1.26.99"})
    assert text == "numpy==1.26.99\ntorch==2.9.7+cu126\n"
    assert hosted.installed()["numpy"] == metadata.version("numpy")
