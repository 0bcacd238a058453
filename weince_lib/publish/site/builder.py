"""Build the site: pages are staged as text, Sphinx renders them, the result is checked."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import paths, plots
from ...errors import MissingPackageError
from .. import notebooks
from ..claims import Decision, decide_all
from ..notebooks import OVERVIEW, NotebookError
from . import check, claims_page, library_pages, notebook_pages

#: What the extra ``site`` brings, by the name it is imported under.
NEEDED = ("sphinx", "myst_nb", "furo", "sphinx_copybutton", "mathjax")
#: The parts of MathJax that the pages use: the program, what it loads by itself, its fonts.
MATHJAX = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")
STATIC = Path(__file__).with_name("static")
FRONT_PAGE = Path(__file__).with_name("front_page.md")
TITLE = "WEINCE companion"
#: Of the integrations' libraries only names are needed.
MOCKED = [
    "accelerate",
    "datasets",
    "lightly",
    "open_clip",
    "pytorch_metric_learning",
    "sentence_transformers",
    "transformers",
]


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
            listing links that lead nowhere and pages that load from outside.
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
        heard = _render(source, pages, Path(work, "doctrees"))
        if heard:
            warnings.warn("Sphinx says:\n" + "\n".join(heard), stacklevel=2)
        faults = [*check.broken_links(pages), *check.loads_from_outside(pages)]
        if faults:
            raise NotebookError("the site was not built:\n" + "\n".join(faults))
        if target.exists():
            shutil.rmtree(target)
        pages.rename(target)
    return target / "index.html"


def stage(folder: Path) -> None:
    """Write the sources of all pages, without rendering them."""
    decisions = decide_all()
    for room in ("notebooks", "library", "_static"):
        (folder / room).mkdir(parents=True)
    for name in notebooks.names():
        notebook_pages.write(name, decisions, folder / "notebooks")
    (folder / "claims.md").write_text(claims_page.claims_page(decisions), encoding="utf-8")
    rooms = library_pages.rooms()
    for room in ["", *rooms]:
        page = folder / "library" / f"{room or 'weince_lib'}.rst"
        page.write_text(library_pages.library_page(room), encoding="utf-8")
    shutil.copy(paths.figures() / "coordinates.png", folder)
    pdf = paths.root() / "paper" / "companion.pdf"
    if pdf.exists():
        shutil.copy(pdf, folder)
    (folder / "index.md").write_text(_front_page(decisions, rooms, pdf.exists()), encoding="utf-8")
    for file in STATIC.iterdir():
        shutil.copy(file, folder / "_static")
    _copy_mathjax(folder / "_static" / "mathjax")


def settings() -> dict[str, Any]:
    """Sphinx's configuration."""
    project = tomllib.loads((paths.root() / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        "project": TITLE,
        "version": project["project"]["version"],
        "copyright": "the companion's authors; the paper is by its authors",
        "extensions": [
            "myst_nb",
            "sphinx.ext.autodoc",
            "sphinx.ext.mathjax",
            "sphinx.ext.napoleon",
            "sphinx_copybutton",
        ],
        "exclude_patterns": [],
        "nb_execution_mode": "off",
        "nb_remove_code_outputs": False,
        "nb_code_prompt_show": "Show code",
        "nb_code_prompt_hide": "Hide code",
        "myst_enable_extensions": ["colon_fence", "deflist", "dollarmath", "attrs_inline"],
        "myst_heading_anchors": 4,
        "autodoc_mock_imports": MOCKED,
        "autodoc_typehints": "signature",
        "autodoc_typehints_format": "short",
        "autodoc_member_order": "bysource",
        "autodoc_class_signature": "mixed",
        "python_maximum_signature_line_length": 88,
        "python_display_short_literal_types": True,
        "napoleon_numpy_docstring": False,
        "napoleon_use_rtype": False,
        "toc_object_entries_show_parents": "hide",
        "mathjax_path": "mathjax/tex-chtml.js",
        # The menu would load speech rules; assistive MathML is there without it.
        "mathjax3_config": {"options": {"enableMenu": False}},
        "html_theme": "furo",
        "html_title": TITLE,
        "html_static_path": ["_static"],
        "html_favicon": "_static/icon.svg",
        "html_css_files": ["companion.css"],
        "html_js_files": [("companion.js", {"defer": "defer"})],
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "pygments_style": "a11y-high-contrast-light",
        "copybutton_selector": "div.cell_input pre, div.highlight-python pre",
    }


def _render(source: Path, pages: Path, doctrees: Path) -> list[str]:
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
            confoverrides=settings(),
            status=None,
            warning=heard,
            freshenv=True,
        )
        app.connect("autodoc-process-docstring", _keep_bars, priority=400)
        app.build()
    for rest in (".buildinfo", "objects.inv"):
        (pages / rest).unlink(missing_ok=True)
    lines = [line.strip() for line in heard.getvalue().splitlines() if line.strip()]
    return [line.replace(f"{source}/", "") for line in lines]


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


def _front_page(decisions: Sequence[Decision], rooms: Sequence[str], pdf: bool) -> str:
    pages = {name: f"notebooks/{name}" for name in notebooks.names()}
    pages[OVERVIEW] = f"00 · Overview <{pages[OVERVIEW]}>"
    numbered = "\n".join(pages.values())
    library = "\n".join(f"library/{room}" for room in ["weince_lib", *rooms])
    document = "\n- {download}`companion.pdf`: the companion as one document." if pdf else ""
    return FRONT_PAGE.read_text(encoding="utf-8").format(
        tally=claims_page.tally(decisions),
        notebooks=numbered,
        library=library,
        pdf=document,
        explorer=plots.explorer()._repr_html_(),
    )
