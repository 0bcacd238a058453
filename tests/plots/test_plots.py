"""Figures: what is drawn, in which colour, under which name, and the bytes they are saved as."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weince_lib import plots
from weince_lib.evt import GPDFit, KnownEndpointFit, fit_gpd, fit_known_endpoint
from weince_lib.losses import PRESETS, TailEvidence, tail_evidence
from weince_lib.losses.similarity import two_view_scores
from weince_lib.plots.style import DATA_COLOUR, REFERENCE_COLOUR
from weince_lib.runs.config import loss_label
from weince_lib.vision import TwoViewAugment

INFONCE, WEINCE, WEIBIT = (plots.LOSS_COLOURS[n] for n in ("infonce", "weince", "weibit"))
KNOWN = plots.LOSS_COLOURS["weince-calibrated"]
ANCHOR = 3


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def saved_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that figures are saved in."""
    monkeypatch.setenv("WEINCE_FIGURES", str(tmp_path / "figures"))
    return tmp_path / "figures"


def batch() -> tuple[torch.Tensor, torch.Tensor, TailEvidence]:
    """Cosines of 64 random pairs, the positives, and the paper's evidence; float64."""
    generator = torch.Generator().manual_seed(2)
    z0, noise = torch.randn(2, 64, 6, generator=generator, dtype=torch.float64)
    scores, positives = two_view_scores(z0, z0 + noise)
    return scores, positives, tail_evidence(scores, positives)


def tail_of(anchor: int) -> torch.Tensor:
    """The anchor's 32 smallest negative shortfalls, ascending."""
    scores, positives, _ = batch()
    kept = [j for j in range(128) if j not in (anchor, int(positives[anchor]))]
    return (1 - scores[anchor, kept]).sort().values[:32]


def colours(artists: Iterable[Line2D]) -> list[str]:
    return [to_hex(line.get_color()).upper() for line in artists]


def history(*names: str) -> list[dict[str, float]]:
    return [{name: 10 * i + k for k, name in enumerate(names)} for i in range(5)]


@functools.cache
def cosines(kind: str) -> np.ndarray:
    """4,000 values whose tail has a regular fit, or none."""
    rng = np.random.default_rng(0)
    if kind == "regular":
        return 1 - 0.3 * np.clip(rng.weibull(3, 4000), 1e-4, 6)
    return 1 - 0.5 * rng.random(4000) ** 2


@functools.cache
def fits(kind: str) -> list[tuple[float, GPDFit, KnownEndpointFit]]:
    values = cosines(kind)
    return [
        (q, fit_gpd(values, quantile=q), fit_known_endpoint(values, quantile=q))
        for q in (0.9, 0.95, 0.975)
    ]


def tail_figure(kind: str) -> Figure:
    _, fit, known = fits(kind)[0]
    return plots.peaks_over_threshold(cosines(kind), fit, known, fits(kind))


def link_figure(*losses: str) -> Figure:
    scores = np.linspace(0.1, 0.9, 7)
    curves = {name: (scores + k, np.exp(scores) + k) for k, name in enumerate(losses)}
    return plots.links(curves, scores, "probability of the positive", "Probability")


def images(channels: int) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    shape = (4, channels, 8, 8)
    x = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return x, TwoViewAugment()(x, generator)


#: A figure, its axes' labels, and how many lines each of its axes has.
FIGURES: dict[str, tuple[Callable[[], Figure], list[tuple[str, str]], list[int]]] = {
    "coordinates": (
        plots.coordinates,
        [("cosine", "nats"), ("1 − s", "nats per unit cosine")],
        [6, 5],  # five blends, and the cap
    ),
    "links": (
        lambda: link_figure("infonce", "weince", "weibit"),
        [("cosine", "probability of the positive"), ("cosine", "nats per unit cosine")],
        [3, 3],
    ),
    "evidence": (
        lambda: plots.evidence_over_anchors(batch()[2]),
        [("shortfall", "anchors"), ("tail index", ""), ("blend weight", "")],
        [1, 0, 0],  # rho_0
    ),
    "lines": (
        lambda: plots.line_fits(tail_of(ANCHOR), batch()[2], ANCHOR),
        [("log δ", "log F̂"), ("log δ", "log(−log F̂)")],
        [3, 3],  # dropped points, kept points, fit
    ),
    "tail": (
        lambda: tail_figure("regular"),
        [("excess over u", "density"), ("quantile", "excess"), ("quantile", "shape")],
        [4, 4, 3],  # three laws and the endpoint; and the diagonal; two fits and zero
    ),
    "tail without a maximum": (
        lambda: tail_figure("unbounded"),
        [("excess over u", "density"), ("quantile", "excess"), ("quantile", "shape")],
        [3, 3, 3],
    ),
    "history of InfoNCE": (
        lambda: plots.training_history(history("loss"), "infonce"),
        [("epoch", "nats per anchor")],
        [1],
    ),
    "history of WEINCE": (
        lambda: plots.training_history(history("loss", "lam", "beta", "rho"), "weince"),
        [("epoch", "nats per anchor"), ("epoch", "λ"), ("epoch", "β̂")],
        [1, 1, 1],
    ),
    "view pairs": (
        lambda: plots.view_pairs(*images(1)),
        [("", name) for row in ("image", "view 1", "view 2") for name in (row, "", "", "")],
        [0] * 12,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_names_its_axes(name: str) -> None:
    build, labels, lines = FIGURES[name]
    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        # A missing glyph or an empty scale is a warning, and only when the figure is drawn.
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        figure = build()
        figure.canvas.draw()
    assert isinstance(figure, Figure)
    assert len(figure.axes) == len(labels)
    for axes, (x, y), count in zip(figure.axes, labels, lines, strict=True):
        assert x in axes.get_xlabel()
        assert y in axes.get_ylabel()
        assert len(axes.lines) == count
    assert dict(mpl.rcParams) == before  # the style stays in the figure
    assert figure.get_figwidth() <= plots.PAGE_WIDTH + 1e-9


# Colours -------------------------------------------------------------------------------------


def test_every_loss_has_one_colour_and_one_name() -> None:
    assert plots.LOSS_COLOURS.keys() == plots.LOSS_NAMES.keys()
    assert len(set(plots.LOSS_COLOURS.values())) == len(plots.LOSS_COLOURS)
    assert len(set(plots.LOSS_NAMES.values())) == len(plots.LOSS_NAMES)
    labels = {loss_label("infonce", None)} | {loss_label("weince", p) for p in PRESETS.values()}
    assert labels | {"weince-custom", "weibit", "released", "ablation"} == plots.LOSS_COLOURS.keys()
    assert not {DATA_COLOUR, REFERENCE_COLOUR} & set(plots.LOSS_COLOURS.values())


def test_a_loss_has_the_same_colour_in_every_figure() -> None:
    for panel in plots.coordinates().axes:
        shades = colours(panel.lines[:5])
        assert (shades[0], shades[4]) == (INFONCE, WEIBIT)
        assert len(set(shades)) == 5
    for name, colour in plots.LOSS_COLOURS.items():
        figure = plots.training_history(history("loss", "lam", "beta"), name)
        assert colours(axes.lines[0] for axes in figure.axes) == [colour] * 3
        assert figure.get_suptitle() == plots.LOSS_NAMES[name]
        for axes in link_figure("infonce", name).axes:
            assert colours(axes.lines[-1:]) == [colour]
    for axes in plots.evidence_over_anchors(batch()[2]).axes:
        assert {to_hex(bar.get_facecolor()).upper() for bar in axes.patches} == {WEINCE}
    left, right = plots.line_fits(tail_of(ANCHOR), batch()[2], ANCHOR).axes
    assert colours([left.lines[2], right.lines[2]]) == [WEIBIT, INFONCE]


# Content -------------------------------------------------------------------------------------


def test_coordinates_are_the_blend_and_its_slope() -> None:
    left, right = plots.coordinates(temperature=0.2, beta=3.0).axes
    s = left.lines[0].get_xdata()
    for lam, logit, slope in zip((0, 0.25, 0.5, 0.75, 1), left.lines, right.lines, strict=False):
        expected = (1 - lam) * s / 0.2 - lam * 3 * np.log(1 - s)
        np.testing.assert_allclose(logit.get_ydata(), expected, rtol=1e-10)
        np.testing.assert_allclose(slope.get_xdata(), 1 - s, rtol=1e-12)
        # The slope is the logit's derivative; differences are exact enough away from the cap.
        middle = s[1:-1] < 0.9
        numeric = ((expected[2:] - expected[:-2]) / (s[2:] - s[:-2]))[middle]
        np.testing.assert_allclose(slope.get_ydata()[1:-1][middle], numeric, rtol=1e-3)
    names = [text.get_text() for text in left.get_legend().get_texts()]
    assert names[0].startswith("λ = 0: InfoNCE")
    assert names[-1].startswith("λ = 1")


@pytest.mark.parametrize("blends", [(0.0, 1.0), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)])
def test_coordinates_of_other_blends(blends: tuple[float, ...]) -> None:
    left, right = plots.coordinates(blends=blends).axes
    assert len(right.lines) == len(blends)
    assert len(set(colours(right.lines))) == len(blends)
    assert colours(left.lines[:1]) == [INFONCE]


def test_links_draw_what_they_are_given() -> None:
    left, right = link_figure("weince", "infonce").axes
    scores = np.linspace(0.1, 0.9, 7)
    for k in range(2):
        np.testing.assert_array_equal(left.lines[k].get_xydata().T, [scores, scores + k])
        np.testing.assert_array_equal(right.lines[k].get_xydata().T, [scores, np.exp(scores) + k])
    names = [text.get_text() for text in left.get_legend().get_texts()]
    assert names == [plots.LOSS_NAMES["weince"], plots.LOSS_NAMES["infonce"]]
    assert left.get_title() == "Probability"


def test_evidence_counts_every_anchor_once() -> None:
    evidence = batch()[2]
    figure = plots.evidence_over_anchors(evidence)
    for axes, values in zip(figure.axes, (evidence.rho, evidence.beta, evidence.lam), strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert sum(heights) == 128
        left, right = axes.patches[0].get_x(), axes.patches[-1].get_x()
        assert left == pytest.approx(values.min().item())
        assert left < right < values.max().item()
    assert figure.axes[0].lines[0].get_xdata()[0] == pytest.approx(float(evidence.rho_0))


def test_line_fits_are_the_lines_behind_the_evidence() -> None:
    """Least squares by its closed form on the drawn points gives the slope and beta."""
    evidence = batch()[2]
    for axes in plots.line_fits(tail_of(ANCHOR), evidence, ANCHOR).axes:
        dropped, kept, line = axes.lines
        assert len(dropped.get_xdata()) == 1
        assert len(kept.get_xdata()) == 31
        x, y = kept.get_data()
        slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
        drawn = np.diff(line.get_ydata()) / np.diff(line.get_xdata())
        np.testing.assert_allclose(drawn, slope, rtol=1e-6)
        assert line.get_label() == f"slope {slope:.2f}"
        if axes.get_ylabel() == "log F̂":
            assert slope == pytest.approx(float(evidence.beta[ANCHOR]), rel=1e-9)
    np.testing.assert_allclose(kept.get_ydata(), np.log(-np.log(np.arange(2, 33) / 33)))
    assert f"β̂ = {float(evidence.beta[ANCHOR]):.2f}" in axes.figure.get_suptitle()


def test_history_draws_a_row_per_epoch() -> None:
    figure = plots.training_history(history("loss", "lam", "beta", "rho"), "weince")
    for k, axes in enumerate(figure.axes):
        assert list(axes.lines[0].get_xdata()) == [1, 2, 3, 4, 5]
        assert list(axes.lines[0].get_ydata()) == [k, 10 + k, 20 + k, 30 + k, 40 + k]


@pytest.mark.parametrize("channels", [1, 3])
def test_view_pairs_show_each_image_above_its_views(channels: int) -> None:
    x, views = images(channels)
    figure = plots.view_pairs(x, views)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    panels = np.array(figure.axes).reshape(3, 4)
    for row, (name, shown) in enumerate(
        [("image", x.numpy() / 255), ("view 1", views[0].numpy()), ("view 2", views[1].numpy())]
    ):
        assert panels[row, 0].get_ylabel() == name
        for column in range(4):
            (picture,) = panels[row, column].images
            drawn = np.asarray(picture.get_array()).reshape(8, 8, channels)
            np.testing.assert_allclose(drawn, shown[column].transpose(1, 2, 0), atol=1e-6)
            assert picture.get_clim() == (0, 1)  # the same grey means the same everywhere
            assert len(panels[row, column].get_xticks()) == 0


# The tail ------------------------------------------------------------------------------------


def test_tail_density_is_a_histogram_with_the_laws_that_were_fitted() -> None:
    values = cosines("regular")
    _, fit, known = fits("regular")[0]
    density = tail_figure("regular").axes[0]
    heights, edges, _ = density.patches[0].get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1.0)
    room = 1 - fit.threshold
    assert edges[[0, -1]] == pytest.approx([0, room])
    assert density.get_title() == f"{fit.exceedances:,} exceedances"
    assert colours(density.lines) == [WEIBIT, KNOWN, INFONCE, REFERENCE_COLOUR]
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


def test_tail_quantiles_follow_the_diagonal_of_the_law_that_made_them() -> None:
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


def test_tail_without_a_maximum_draws_the_known_endpoint_alone() -> None:
    _, fit, known = fits("unbounded")[0]
    assert math.isnan(fit.shape)
    figure = tail_figure("unbounded")
    for axes in figure.axes[:2]:
        assert colours(axes.lines) == [KNOWN, INFONCE, REFERENCE_COLOUR]
    (legend,) = figure.legends
    assert not any("Pareto" in text.get_text() for text in legend.get_texts())
    drawn = [container[0].get_ydata()[0] for container in figure.axes[2].containers]
    assert drawn == pytest.approx([math.nan, known.shape], nan_ok=True)


def test_tail_shapes_have_the_intervals_of_their_fits() -> None:
    axes = tail_figure("regular").axes[2]
    for which, colour in ((1, WEIBIT), (2, KNOWN)):
        centre, _, (bars,) = axes.containers[which - 1]
        assert colours([centre]) == [colour]
        for k, row in enumerate(fits("regular")):
            found = row[which]
            assert centre.get_ydata()[k] == pytest.approx(found.shape)
            ends = bars.get_segments()[k][:, 1]
            assert ends == pytest.approx([found.shape_low, found.shape_high])
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0.9", "0.95", "0.975"]


def test_few_exceedances_are_all_shown() -> None:
    values = cosines("regular")[:200]
    fit, known = fit_gpd(values, quantile=0.9), fit_known_endpoint(values, quantile=0.9)
    qq = plots.peaks_over_threshold(values, fit, known, [(0.9, fit, known)]).axes[1]
    assert len(qq.lines[0].get_xdata()) == fit.exceedances == 20


# Saving --------------------------------------------------------------------------------------


def test_saving_the_same_figure_again_gives_the_same_bytes(
    saved_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for clock in ("0", "1000000000"):  # the date that matplotlib would write
        monkeypatch.setenv("SOURCE_DATE_EPOCH", clock)
        figure = plots.training_history(history("loss", "lam", "beta"), "weince")
        plots.save_figure(figure, "figure")
        written.append([(saved_in / f"figure{suffix}").read_bytes() for suffix in (".png", ".pdf")])
    assert written[0] == written[1]
    png, pdf = written[0]
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert pdf.startswith(b"%PDF-")
    for content in (png, pdf):
        for word in (b"Matplotlib", b"CreationDate", b"Producer", b"Software"):
            assert word not in content
    assert sorted(path.name for path in saved_in.iterdir()) == ["figure.pdf", "figure.png"]
    # Three panels fill the text width: 6.5 inches of 200 dots, or of 72 points.
    assert plt.imread(saved_in / "figure.png").shape[1] == 1300
    assert b"/MediaBox [ 0 0 468 " in pdf


def test_another_figure_has_other_bytes(saved_in: Path) -> None:
    for loss in ("infonce", "weibit"):
        plots.save_figure(plots.training_history(history("loss"), loss), loss)
    for suffix in ("png", "pdf"):
        one, two = ((saved_in / f"{loss}.{suffix}").read_bytes() for loss in ("infonce", "weibit"))
        assert one != two


def test_text_in_a_pdf_is_embedded_as_truetype(saved_in: Path) -> None:
    """Type 3 fonts are refused by many journals; the style asks for type 42."""
    plots.save_figure(plots.training_history(history("loss"), "infonce"), "figure")
    content = (saved_in / "figure.pdf").read_bytes()
    assert b"/CIDFontType2" in content
    assert b"/Type3" not in content
