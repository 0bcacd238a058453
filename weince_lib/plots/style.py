"""One look for every figure: the same colour for the same loss everywhere, safe for colour-blind.

Colours are Okabe and Ito's (2008). Figures are 6.5 inches wide, the text width of a letter page.
In a notebook they are embedded with two pixels for each one shown, so that they are sharp on every
screen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import files, paths

#: Text width of a letter page with one-inch margins, in inches.
PAGE_WIDTH = 6.5

LOSS_COLOURS = {
    "infonce": "#0072B2",
    "weince": "#D55E00",
    "weince-release": "#E69F00",
    "weince-calibrated": "#009E73",
    "weince-custom": "#56B4E9",
    "weibit": "#CC79A7",
    "released": "#F0E442",
    "ablation": "#000000",
}
LOSS_NAMES = {
    "infonce": "InfoNCE",
    "weince": "WEINCE (paper)",
    "weince-release": "WEINCE (release)",
    "weince-calibrated": "WEINCE (calibrated)",
    "weince-custom": "WEINCE (custom)",
    "weibit": "Weibit (λ = 1)",
    "released": "release's whole objective",
    "ablation": "ablation",
}
#: Domains of attraction, in Table 1's order; two have the colour of the loss they lead to.
DOMAIN_COLOURS = {
    "Gumbel": LOSS_COLOURS["infonce"],
    "Fréchet": "#E69F00",
    "Weibull": LOSS_COLOURS["weibit"],
}
#: What the data look like, whatever the loss: observed scores, and reference lines.
DATA_COLOUR = "#444444"
REFERENCE_COLOUR = "#999999"

RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "weince",
    "pdf.fonttype": 42,
}


def sharp_in_notebooks() -> None:
    """Have the notebook that runs this code embed its figures at twice their resolution.

    Called when :mod:`weince_lib.plots` is imported. Outside a notebook, and where the reader chose
    a format of their own, nothing changes.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or getattr(shell, "kernel", None) is None:
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=shell)
    if backend.figure_formats == {"png"}:
        backend.figure_formats = {"retina"}  # for a backend that is set up later
        set_matplotlib_formats("retina")  # for one that is already


@contextmanager
def style() -> Iterator[None]:
    """Use the companion's style inside a ``with`` block."""
    with mpl.rc_context(RC):
        yield


def note(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], **look: Any
) -> None:
    """Write small text at a point of the axes, shifted by so many points of the page."""
    settings: dict[str, Any] = {"fontsize": 8, "color": DATA_COLOUR} | look
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **settings)


def legend_below(figure: Figure, axes: Axes, columns: int, **look: Any) -> None:
    """One legend under the whole figure, for what is labelled in one of its panels."""
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=columns, **look)


def save_figure(figure: Figure, name: str) -> None:
    """Write ``figures/NAME.png`` and ``.pdf``, byte-stable for the same content.

    Dates and program versions are left out of the files.
    """
    for suffix, metadata in (
        (".png", {"Software": None}),
        (".pdf", {"CreationDate": None, "Producer": None, "Creator": None}),
    ):
        # Some settings, such as the kind of fonts, count when the file is written.
        with style(), files.replacing(paths.figures() / f"{name}{suffix}") as aside:
            figure.savefig(aside, metadata=metadata, dpi=RC["savefig.dpi"])
