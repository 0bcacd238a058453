"""Build the site: pages are staged as text, and Sphinx renders and checks them."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import __version__, paths, plots
from ...errors import MissingPackageError
from .. import notebooks
from ..claims import Decision, decide_all
from ..notebooks import OVERVIEW, NotebookError
from . import claims_page, notebook_pages

#: What the extra ``site`` brings, by the name it is imported under.
NEEDED = ("sphinx", "myst_nb", "furo", "sphinx_copybutton", "mathjax")
#: The parts of MathJax that the pages use: the program, what it loads by itself, its fonts.
MATHJAX = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")
STATIC = Path(__file__).with_name("static")
FRONT_PAGE = Path(__file__).with_name("front_page.md")
LIBRARY = Path(__file__).parents[2]
#: Rooms that a reader does not import: the command line, and a helper for whole files.
NO_ROOMS = {"cli", "files", "hosted"}
#: What only passes on names of other rooms, to which the index leads.
DOORS = ("weince_lib", "weince_lib.experiments")
#: Sphinx's configuration.
SETTINGS: dict[str, Any] = {
    "project": "WEINCE companion",
    "version": __version__,
    "copyright": "the companion's authors; the paper is by its authors",
    "extensions": [
        "myst_nb",
        "sphinx.ext.autodoc",
        "sphinx.ext.mathjax",
        "sphinx.ext.napoleon",
        "sphinx_copybutton",
    ],
    "nb_execution_mode": "off",
    "nb_code_prompt_show": "Show code",
    "nb_code_prompt_hide": "Hide code",
    "myst_enable_extensions": ["colon_fence", "deflist", "dollarmath", "attrs_inline"],
    "myst_heading_anchors": 4,
    # Of the integrations' libraries only names are needed.
    "autodoc_mock_imports": [
        "accelerate",
        "datasets",
        "lightly",
        "open_clip",
        "pytorch_metric_learning",
        "sentence_transformers",
        "transformers",
    ],
    "autodoc_typehints_format": "short",
    "autodoc_member_order": "bysource",
    "autodoc_class_signature": "mixed",
    "python_maximum_signature_line_length": 88,
    "python_display_short_literal_types": True,
    "napoleon_use_rtype": False,
    # A name that two rooms have, as ConfigError of runs and experiments, leads to one of them.
    "suppress_warnings": ["ref.python"],
    "toc_object_entries_show_parents": "hide",
    "mathjax_path": "mathjax/tex-chtml.js",
    # The menu would load speech rules; assistive MathML is there without it.
    "mathjax3_config": {"options": {"enableMenu": False}},
    "html_theme": "furo",
    "html_title": "WEINCE companion",
    "html_static_path": ["_static"],
    "html_favicon": "_static/icon.svg",
    "html_css_files": ["companion.css"],
    "html_js_files": [("companion.js", {"defer": "defer"})],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "pygments_style": "a11y-high-contrast-light",
    "copybutton_selector": "div.cell_input pre, div.highlight-python pre",
}


def build(output: Path | None = None) -> Path:
    """Build the site from the executed notebooks, the claims and the docstrings.

    Args:
        output: the folder to write; ``runs/site`` by default. It is replaced when the new site is
            whole and checked; until then it stays as it was.

    Returns:
        The front page.

    Raises:
        MissingPackageError: if the extra ``site`` is not installed.
        NotebookError: naming a notebook that is not executed or a figure without a caption; or
            with Sphinx's warnings, among them links that lead nowhere.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"the site needs {', '.join(missing)}; install them with: "
            "pip install 'weince-lib[site]'"
        )
    target = (output or paths.runs() / "site").absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=target.parent) as work:
        source, pages = Path(work, "source"), Path(work, "pages")
        stage(source)
        warnings = _render(source, pages, Path(work, "doctrees"))
        if warnings:
            raise NotebookError(f"the site was not built; Sphinx says:\n{warnings}")
        if target.exists():
            shutil.rmtree(target)
        pages.rename(target)
    return target / "index.html"


def stage(folder: Path) -> None:
    """Write the sources of all pages, without rendering them."""
    decisions = decide_all()
    for room in ("notebooks", "library"):
        (folder / room).mkdir(parents=True)
    for name in notebooks.names():
        notebook_pages.write(name, decisions, folder / "notebooks")
    (folder / "claims.md").write_text(claims_page.claims_page(decisions), encoding="utf-8")
    modules = ["weince_lib", *(f"weince_lib.{room}" for room in rooms())]
    for module in modules:
        page = folder / "library" / f"{module}.rst"
        page.write_text(library_page(module), encoding="utf-8")
    shutil.copy(paths.figures() / "coordinates.png", folder)
    pdf = paths.root() / "paper" / "companion.pdf"
    if pdf.exists():
        shutil.copy(pdf, folder)
    front = _front_page(decisions, modules, pdf=pdf.exists())
    (folder / "index.md").write_text(front, encoding="utf-8")
    shutil.copytree(STATIC, folder / "_static")
    _copy_mathjax(folder / "_static" / "mathjax")


def rooms() -> list[str]:
    """The library's rooms, in alphabetical order."""
    found = [path.parent.name for path in LIBRARY.glob("*/__init__.py")]
    found += [path.stem for path in LIBRARY.glob("[a-z]*.py")]
    return sorted(set(found) - NO_ROOMS)


def library_page(module: str) -> str:
    """The reference of one room in reStructuredText: the room itself, then each file in it.

    What a room offers in its ``__all__`` is documented there, and not again at its file.
    """
    parts = [f"{module}\n{'=' * len(module)}", f".. automodule:: {module}\n   :members:"]
    if module in DOORS:
        return "\n\n".join(parts) + "\n   :no-index:\n"
    folder = LIBRARY / module.partition(".")[2]
    offered = re.findall(r'^    "(\w+)",$', _text(folder / "__init__.py"), re.MULTILINE)
    for file in sorted(folder.rglob("[a-z]*.py")):
        inner = ".".join((module, *file.relative_to(folder).with_suffix("").parts))
        name = inner.removeprefix(f"{module}.")
        parts.append(f"{name}\n{'-' * len(name)}")
        options = f"\n   :exclude-members: {', '.join(offered)}" if offered else ""
        if name in offered:  # a file named like the function in it: the index has the function
            options += "\n   :no-index:"
        parts.append(f".. automodule:: {inner}\n   :members:{options}")
    return "\n\n".join(parts) + "\n"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _render(source: Path, pages: Path, doctrees: Path) -> str:
    """Run Sphinx; returns its warnings, each with the page it is about."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    heard = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=pages,
            doctreedir=doctrees,
            buildername="html",
            confoverrides=SETTINGS,
            status=None,
            warning=heard,
            freshenv=True,
        )
        app.connect("autodoc-process-docstring", _keep_bars, priority=400)
        app.build()
    return heard.getvalue().replace(f"{source}/", "").strip()


def _keep_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Absolute values in docstrings stay what they are: to Sphinx, bars mean a substitution."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"``[^`]*``|\|", lambda m: "\\|" if m[0] == "|" else m[0], line)


def _copy_mathjax(target: Path) -> None:
    import mathjax

    (origin,) = mathjax.__path__
    for part in MATHJAX:
        found = Path(origin, "static", "mathjax", "es5", part)
        place = target / part
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if found.is_dir() else shutil.copy)(found, place)


def _front_page(decisions: Sequence[Decision], modules: Sequence[str], *, pdf: bool) -> str:
    pages = {name: f"notebooks/{name}" for name in notebooks.names()}
    pages[OVERVIEW] = f"00 · Overview <{pages[OVERVIEW]}>"
    document = "\n- {download}`companion.pdf`: the companion as one document." if pdf else ""
    return FRONT_PAGE.read_text(encoding="utf-8").format(
        tally=claims_page.tally(decisions),
        notebooks="\n".join(pages.values()),
        library="\n".join(f"library/{module}" for module in modules),
        pdf=document,
        explorer=plots.explorer()._repr_html_(),
    )
