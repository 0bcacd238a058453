"""Figures of a tail's fit: what is drawn, where, and what is left out without an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from weince_lib import plots
from weince_lib.evt import fit_gpd, fit_known_endpoint, mean_residual_life, parameter_stability

INFONCE, WEIBIT, KNOWN = (plots.LOSS_COLOURS[n] for n in ("infonce", "weibit", "weince-calibrated"))


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def scores(shape: float, size: int = 3000) -> np.ndarray:
    return 1 - np.random.default_rng(0).random(size) ** -shape


def colours(axes: plt.Axes) -> list[str]:
    return [to_hex(line.get_color()).upper() for line in axes.lines]


def test_quantiles_lie_in_their_band_where_the_model_is_right() -> None:
    values = scores(-0.4)
    fit, known = fit_gpd(values, quantile=0.8), fit_known_endpoint(values, quantile=0.8)
    whole, rest = plots.quantile_quantile(values, fit, known).axes
    assert colours(whole)[:3] == [WEIBIT, KNOWN, INFONCE]
    model, observed = whole.lines[0].get_data()
    assert observed[-100:] == pytest.approx(np.sort(values)[-100:] - fit.threshold)
    _, difference = rest.lines[0].get_data()
    assert difference == pytest.approx(observed - model)
    assert colours(rest)[:2] == [WEIBIT, KNOWN]  # the exponential would hide the rest
    band = rest.collections[0].get_paths()[0]
    inside = band.contains_points(np.column_stack([model, difference]), radius=1e-9)
    assert inside.mean() > 0.9
    assert f"{fit.exceedances} excesses" in whole.get_title()


def test_without_an_estimate_the_known_endpoint_is_left() -> None:
    draw = plots.quantile_quantile
    values = scores(-1.6)
    fit, known = fit_gpd(values, quantile=0.8), fit_known_endpoint(values, quantile=0.8)
    assert math.isnan(fit.shape)
    assert WEIBIT not in colours(draw(values, fit, known).axes[0])
    assert KNOWN in colours(draw(values, fit, known).axes[0])
    assert colours(draw(values, fit).axes[0])[0] == INFONCE
    other = fit_known_endpoint(values, quantile=0.9)
    with pytest.raises(ValueError, match="different thresholds"):
        draw(values, fit, other)


@pytest.mark.parametrize("shape", [-0.3, -0.8, -1.6, -4.0])
def test_stability_draws_every_shape(shape: float) -> None:
    points = parameter_stability(scores(shape, 20_000), endpoint=1.0)
    panel, scale = plots.parameter_stability(points).axes
    ours = panel.lines[0]
    assert ours.get_ydata() == pytest.approx([p.fit.shape for p in points], nan_ok=True)
    known = [p.known.shape for p in points if p.known is not None]
    assert panel.lines[1].get_ydata() == pytest.approx(known)
    arrows = [line for line in panel.lines if line.get_marker() == "v"]
    missing = sum(math.isnan(p.fit.shape) for p in points)
    assert (len(arrows), missing > 0) == (int(missing > 0), shape < -1)
    assert scale.lines[0].get_ydata() == pytest.approx(
        [p.modified_scale for p in points], nan_ok=True
    )
    segments = panel.collections[0].get_segments()
    assert [s[0][1] for s in segments] == pytest.approx([p.fit.shape_low for p in points])
    labels = [t.get_text() for t in panel.get_xticklabels()]
    assert labels[0] == "0.9\n2,000"


def test_stability_without_a_known_endpoint() -> None:
    points = parameter_stability(scores(-0.3, 20_000))
    assert KNOWN not in colours(plots.parameter_stability(points).axes[0])


def test_mean_residual_life_has_the_line_of_the_fit() -> None:
    values = scores(-0.5, 5000)
    fit = fit_gpd(values, quantile=0.6)
    points = mean_residual_life(values)
    (axes,) = plots.mean_residual_life(points, fit).axes
    u, line = axes.lines[1].get_data()
    assert u[0] == fit.threshold
    assert line[0] == pytest.approx(fit.scale / (1 - fit.shape))
    observed = np.interp(u, [p.threshold for p in points], [p.mean for p in points])
    assert line == pytest.approx(observed, abs=0.03 * observed[0])
    nothing = fit_gpd(scores(-1.6), quantile=0.6)
    assert len(plots.mean_residual_life(points, nothing).axes[0].lines) == 1
    assert len(plots.mean_residual_life(points).axes[0].lines) == 1
