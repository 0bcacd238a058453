"""The figure to move, in a browser: its numbers are the library's, at the ends too, offline."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import log_softmax

from weince_lib import plots
from weince_lib.links import gumbel_link, weibull_link
from weince_lib.losses import blended_logits

LINKS = ("linear", "endpoint", "blend")
SETTINGS = [
    {"temperature": 0.2, "beta": 2.0, "weight": 0.5, "dimension": 5},
    {"temperature": 0.07, "beta": 3.5, "weight": 0.25, "dimension": 24},
    {"temperature": 0.005, "beta": 0.1, "weight": 1.0, "dimension": 1024},
    {"temperature": 0.005, "beta": 10.0, "weight": 0.0, "dimension": 3},
    {"temperature": 1.0, "beta": 10.0, "weight": 1.0, "dimension": 3},
]
BY_VALUES = pytest.mark.parametrize("values", SETTINGS, ids=str)


@pytest.fixture(scope="module")
def opened(browser):
    """A page on a dark ground with the figure in it, and all that it requested or complained of."""
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    heard = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("console", lambda message: heard.append(message.text))
    frame = plots.explorer()._repr_html_()
    page.set_content(f'<body style="background: #111">{frame}')
    page.frame_locator("iframe").locator(".candidate").first.wait_for()
    yield page, heard
    page.close()


@pytest.fixture
def figure(opened):
    return opened[0].frames[1]


def move(figure, values):
    """Move the sliders as a hand does: a value, then the event."""
    for name, value in values.items():
        figure.evaluate(
            """([name, value]) => {
                const slider = document.getElementById(name);
                slider.value = name === "dimension" ? dimensions.indexOf(value) : value;
                slider.dispatchEvent(new Event("input"));
            }""",
            [name, value],
        )


def told(figure):
    """The candidates' numbers, each an array over the dozen."""
    rows = figure.eval_on_selector_all(".candidate", "all => all.map((c) => ({...c.dataset}))")
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def drawn(figure, panel, link):
    """A curve as fractions of its panel's axes, shape ``(points, 2)``."""
    box = {k: float(v) for k, v in figure.eval_on_selector(panel, "s => ({...s.dataset})").items()}
    path = figure.get_attribute(f"{panel} .{link}", "d")
    points = np.array([[float(n) for n in p.split(",")] for p in re.split("[ML]", path)[1:]])
    points[:, 0] = (points[:, 0] - box["left"]) / (box["right"] - box["left"])
    points[:, 1] = (box["bottom"] - points[:, 1]) / (box["bottom"] - box["top"])
    return points, box


def logits(shortfalls, beta, temperature, weight):
    """The losses' own logits, shape ``(points,)``."""
    scores = torch.from_numpy(1 - shortfalls)[None]
    one = torch.ones(1, dtype=torch.float64)
    return blended_logits(scores, weight * one, beta * one, temperature)[0].numpy()


@BY_VALUES
def test_candidates_stand_where_random_directions_are_expected(figure, values):
    move(figure, values)
    shortfalls = told(figure)["shortfall"]
    assert shortfalls[0] == pytest.approx(0.2)
    # (1 - s) / 2 of random directions has a beta distribution; its order statistics by quadrature.
    half = (values["dimension"] - 1) / 2
    law = stats.beta(half, half)
    for k, found in enumerate(shortfalls[1:], 1):
        order = stats.beta(k, 510 - k + 1)
        expected, _ = integrate.quad(
            lambda u, order=order: 2 * law.ppf(u) * order.pdf(u),
            order.ppf(1e-15), order.isf(1e-15), epsabs=0, epsrel=1e-10, limit=200,
        )  # fmt: skip
        assert found == pytest.approx(expected, rel=1e-6)


@BY_VALUES
def test_logits_slopes_and_probabilities_are_the_librarys(figure, values):
    move(figure, values)
    t, beta, weight = values["temperature"], values["beta"], values["weight"]
    found = told(figure)
    s = 1 - found["shortfall"]
    close = {"rtol": 1e-9, "atol": 1e-300}
    np.testing.assert_allclose(found["logit"], logits(found["shortfall"], beta, t, weight), **close)
    for link, log_p in (
        ("linear", gumbel_link(s, t)),
        ("endpoint", weibull_link(s, beta)),
        ("blend", log_softmax((1 - weight) * s / t - weight * beta * np.log1p(-s))),
    ):
        np.testing.assert_allclose(found[link], np.exp(log_p), **close)
    scores = torch.from_numpy(s)[None].requires_grad_()
    one = torch.ones(1, dtype=torch.float64)
    blended_logits(scores, weight * one, beta * one, t).sum().backward()
    np.testing.assert_allclose(found["slope"], scores.grad[0].numpy(), **close)


@BY_VALUES
def test_curves_are_the_librarys_and_finite(figure, values):
    move(figure, values)
    t, beta = values["temperature"], values["beta"]
    for link, weight in zip(LINKS, (0.0, 1.0, values["weight"]), strict=True):
        points, box = drawn(figure, "#logit", link)
        assert np.isfinite(points).all()
        assert points[:, 0].max() == pytest.approx(1, abs=1e-4)
        inside = points[:, 0] < 0.99  # nearer the cap a hundredth of a pixel is too coarse to read
        expected = logits(1 - points[inside, 0], beta, t, weight) / box["ymax"]
        np.testing.assert_allclose(points[inside, 1], expected, rtol=0.01, atol=2e-3)

        points, _ = drawn(figure, "#slope", link)
        assert np.isfinite(points).all()
        shortfalls = 10 ** (-4 * points[:, 0])
        expected = (1 - weight) / t + weight * beta / shortfalls
        np.testing.assert_allclose(6 * points[:, 1] - 1, np.log10(expected), atol=2e-3)


@BY_VALUES
def test_the_crossing_is_at_beta_tau_where_the_slopes_are_equal(figure, values):
    move(figure, values)
    at = values["beta"] * values["temperature"]
    assert float(figure.get_attribute("main", "data-crossing")) == pytest.approx(at)
    (linear, _), (endpoint, _) = (drawn(figure, "#slope", link) for link in LINKS[:2])
    nearer = linear[:, 0] > math.log10(at) / -4 + 0.01
    assert (endpoint[nearer, 1] > linear[nearer, 1]).all()


def test_keys_move_the_sliders_to_their_ends_and_readers_hear_the_values(figure):
    for name, (least, most) in {
        "Temperature τ": ("0.005", "1"),
        "Tail index β": ("0.1", "10"),
        "Blend weight λ": ("0", "1"),
        "Dimension d": ("3", "1024"),
    }.items():
        slider = figure.get_by_label(name)
        for key, value in (("End", most), ("Home", least)):
            slider.press(key)
            assert slider.get_attribute("aria-valuetext") == value
            assert value in figure.locator("label", has_text=name).inner_text()
        html = figure.inner_html("main")
        assert "NaN" not in html and "Infinity" not in html and "undefined" not in html
    figure.get_by_label("Blend weight λ").press("ArrowRight")
    assert figure.get_attribute("main", "data-weight") == "0.01"


def test_nothing_was_requested_and_nothing_failed(opened):
    assert opened[1] == []
