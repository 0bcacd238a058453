"""Figures of tails and their fits: what is drawn, and what is left out without an estimate."""

import functools
import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from weince_lib import plots
from weince_lib.evt import fit_gpd, fit_known_endpoint, parameter_stability
from weince_lib.plots.style import REFERENCE_COLOUR

INFONCE, WEIBIT, KNOWN = (plots.LOSS_COLOURS[n] for n in ("infonce", "weibit", "weince-calibrated"))


@functools.cache
def cosines(kind):
    """4,000 values whose tail has a regular fit, or none."""
    rng = np.random.default_rng(0)
    if kind == "regular":
        return 1 - 0.3 * np.clip(rng.weibull(3, 4000), 1e-4, 6)
    return 1 - 0.5 * rng.random(4000) ** 2


@functools.cache
def fits(kind):
    values = cosines(kind)
    return [
        (q, fit_gpd(values, quantile=q), fit_known_endpoint(values, quantile=q))
        for q in (0.9, 0.95, 0.975)
    ]


def tail_figure(kind):
    _, fit, known = fits(kind)[0]
    return plots.peaks_over_threshold(cosines(kind), fit, known, fits(kind))


def scores(shape, size=3000):
    return 1 - np.random.default_rng(0).random(size) ** -shape


def colours(axes):
    return [to_hex(line.get_color()).upper() for line in axes.lines]


def test_tail_density_is_a_histogram_with_the_laws_that_were_fitted():
    values = cosines("regular")
    _, fit, known = fits("regular")[0]
    density = tail_figure("regular").axes[0]
    heights, edges, _ = density.patches[0].get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1.0)
    room = 1 - fit.threshold
    assert edges[[0, -1]] == pytest.approx([0, room])
    assert colours(density) == [WEIBIT, KNOWN, INFONCE, REFERENCE_COLOUR]
    gpd, endpoint, exponential, cap = density.lines
    y, heights = gpd.get_data()
    inside = y < 0.99 * min(room, fit.endpoint - fit.threshold)
    expected = (1 + fit.shape * y[inside] / fit.scale) ** (-1 / fit.shape - 1) / fit.scale
    np.testing.assert_allclose(heights[inside], expected, rtol=1e-9)
    expected = known.beta / room * (1 - y[inside] / room) ** (known.beta - 1)
    np.testing.assert_allclose(endpoint.get_ydata()[inside], expected, rtol=1e-9)
    mean = values[values > fit.threshold].mean() - fit.threshold
    np.testing.assert_allclose(exponential.get_ydata(), np.exp(-y / mean) / mean, rtol=1e-9)
    # No density above the endpoint of a law.
    assert not endpoint.get_ydata()[y > room].any()
    assert cap.get_xdata()[0] == pytest.approx(room)


def test_tail_quantiles_follow_the_diagonal_of_the_law_that_made_them():
    # Quantiles of an exact power of the shortfall, P(1 - s < 0.3 x) = x^3.
    values = 1 - 0.3 * ((np.arange(4000) + 0.5) / 4000) ** (1 / 3)
    fit, known = fit_gpd(values, quantile=0.9), fit_known_endpoint(values, quantile=0.9)
    qq = plots.peaks_over_threshold(values, fit, known, [(0.9, fit, known)]).axes[1]
    excess = np.sort(values[values > fit.threshold]) - fit.threshold
    *laws, diagonal = qq.lines
    for line in laws:
        model, observed = line.get_data()
        assert np.isin(excess[-100:], observed).all()  # the top points are all there
        assert (np.diff(model) > 0).all()
    model, observed = laws[1].get_data()
    np.testing.assert_allclose(model, observed, atol=2e-3 * excess[-1])
    model, observed = laws[2].get_data()
    assert model[-1] > 1.5 * observed[-1]  # an exponential tail has no endpoint
    np.testing.assert_array_equal(*diagonal.get_data())


def test_tail_without_a_maximum_draws_the_known_endpoint_alone():
    _, fit, known = fits("unbounded")[0]
    assert math.isnan(fit.shape)
    figure = tail_figure("unbounded")
    for axes in figure.axes[:2]:
        assert colours(axes) == [KNOWN, INFONCE, REFERENCE_COLOUR]
    drawn = [container[0].get_ydata()[0] for container in figure.axes[2].containers]
    assert drawn == pytest.approx([math.nan, known.shape], nan_ok=True)


def test_quantiles_lie_in_their_band_where_the_model_is_right():
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
    with pytest.raises(ValueError, match="different thresholds"):
        plots.quantile_quantile(values, fit, fit_known_endpoint(values, quantile=0.9))


@pytest.mark.parametrize("shape", [-0.3, -1.6, -4.0])
def test_stability_draws_every_shape(shape):
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
