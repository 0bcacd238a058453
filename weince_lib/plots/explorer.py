"""A figure to move: the links, their slopes and who wins, with sliders, in any web page.

The page is ``explorer.html`` beside this file. It computes in the reader's browser, needs neither a
kernel nor a library, and requests nothing, so that it works in JupyterLab, in Colab and on a static
page. What it shares with the library (colours, the least shortfall, ranges) is written into it
here.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

from ..losses import TailSettings
from .style import DATA_COLOUR, LOSS_COLOURS, REFERENCE_COLOUR

#: Least and largest value of each slider. The page takes them from here.
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.005, 1.0),
    "beta": (0.1, 10.0),
    "weight": (0.0, 1.0),
    "dimension": (3, 1024),
}
#: Random directions of which the nearest compete: the negatives of a batch of 256 pairs.
NEGATIVES = 510
#: How many of them compete with the positive. A dozen bars can still be read on a phone.
NEAREST = 11
#: Cosine of the positive, as in notebook 05.
POSITIVE = 0.8

_PAGE = Path(__file__).with_name("explorer.html")
#: Shown where a front end shows no saved HTML: JupyterLab until the notebook is trusted.
_FALLBACK = "This figure has sliders. Run this cell, or trust the notebook, to see it."


@dataclass(frozen=True)
class Explorer:
    """The figure with the values that its sliders start from. Notebooks show it by itself.

    Attributes:
        temperature: tau.
        beta: tail index of the endpoint link.
        weight: lambda.
        dimension: of the sphere that the negatives are drawn from.
    """

    temperature: float
    beta: float
    weight: float
    dimension: int

    def page(self) -> str:
        """The figure as a whole HTML page, which loads nothing."""
        settings = {
            "ranges": RANGES,
            "start": {name: getattr(self, name) for name in RANGES},
            "floor": TailSettings().floor,
            "negatives": NEGATIVES,
            "nearest": NEAREST,
            "positive": POSITIVE,
            "colours": {
                "linear": LOSS_COLOURS["infonce"],
                "endpoint": LOSS_COLOURS["weibit"],
                "blend": LOSS_COLOURS["weince"],
                "data": DATA_COLOUR,
                "reference": REFERENCE_COLOUR,
            },
        }
        text = _PAGE.read_text(encoding="utf-8")
        return text.replace("{settings}", json.dumps(settings, ensure_ascii=False))

    def _repr_html_(self) -> str:
        """The page in a frame: its style and script do not meet those of the page around it."""
        return (
            '<iframe title="Links, slopes and winners, with sliders" width="100%" height="480" '
            'style="border:0;display:block" '
            f'srcdoc="{html.escape(self.page())}">{_FALLBACK}</iframe>'
        )


def explorer(
    temperature: float = 0.2, beta: float = 2.0, weight: float = 0.5, dimension: int = 5
) -> Explorer:
    """A figure with sliders for tau, beta, lambda and the dimension.

    Three panels: the logit of a candidate over its cosine for the linear link s / tau, the endpoint
    link -beta log(1 - s) and WEINCE's blend of the two, Eq. (3.1); their slopes, with the shortfall
    beta tau below which the endpoint link is the steeper one; and the probability that each of a
    dozen candidates wins. These are a positive and the eleven nearest of 510 random directions,
    each at its expected place. Shortfalls are cut at the losses' floor.

    Args:
        temperature: tau, in [0.005, 1].
        beta: tail index, in [0.1, 10]. The default is that of random directions in the default
            dimension, (dimension - 1) / 2.
        weight: lambda, in [0, 1].
        dimension: of the sphere, a whole number in [3, 1024].

    Returns:
        An object that notebooks show; :meth:`Explorer.page` is the figure as a page of its own.

    Raises:
        ValueError: naming a value outside its range.
    """
    return Explorer(
        _in_range("temperature", temperature),
        _in_range("beta", beta),
        _in_range("weight", weight),
        int(_in_range("dimension", dimension, Integral)),
    )


def _in_range(name: str, value: float, kind: type = Real) -> float:
    least, most = RANGES[name]
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        what = "a whole number" if kind is Integral else "a number"
        raise ValueError(f"{name} must be {what} in [{least:g}, {most:g}], got {value!r}")
    return float(value)
