"""Link selection end to end on banks of known links; ablations; rivals that are no endpoint."""

import numpy as np
import pytest
from link_samples import bank_of_blend, random_bank

from weince_lib.diagnostics.choice_bank import ChoiceBank, draw_winners
from weince_lib.diagnostics.link_fit import Design, fit_link, power_coordinate
from weince_lib.diagnostics.link_inference import boundary_p, simulate_sums
from weince_lib.diagnostics.link_selection import (
    LINKS,
    compare_links,
    cross_validate,
    halves,
    select_link,
    simulate_softmax,
    vary_hardness,
    vary_pool,
)

LARGE = {"batches": 16, "anchors": 120, "candidates": 40}


def held_out_gain(held_in, held_out):
    """Mean gain of H1 over H0 on other choices, nats per anchor."""
    both, one = ("identity", "shortfall"), ("identity",)
    h1, h0 = (fit_link(Design(held_in, names)).theta for names in (both, one))
    gains = Design(held_out, both).log_probability(h1) - Design(held_out, one).log_probability(h0)
    return gains.mean(axis=1)


def test_selection_fits_one_half_and_scores_the_other():
    bank = bank_of_blend(0.4)
    found = select_link(bank, repetitions=99)
    held_in, held_out = halves(bank)
    assert np.array_equal(held_in.scores, bank.scores[::2])
    assert np.array_equal(held_out.scores, bank.scores[1::2])
    np.testing.assert_allclose(found.gain.per_batch, held_out_gain(held_in, held_out), atol=1e-9)
    assert found.h0.temperature == fit_link(Design(held_in, ("identity",))).temperature
    # Nothing that is fitted looks at the held-out half.
    other = bank.scores.copy()
    other[1::2] = random_bank(seed=9).scores[1::2]
    again = select_link(type(bank)(other), repetitions=99)
    assert again.h1.value == found.h1.value
    assert again.statistic == found.statistic


def test_cross_validation_against_refits():
    bank = bank_of_blend(0.4, batches=11)
    found = cross_validate(bank, folds=5, seed=2)
    order = np.random.default_rng(2).permutation(11)
    for fold in range(5):
        out = sorted(order[fold::5])
        kept = [b for b in range(11) if b not in out]
        expected = held_out_gain(bank.of(kept), bank.of(out)).mean()
        assert found.gains[fold] == pytest.approx(expected, abs=1e-8)
    assert found.blends.shape == (5,)
    with pytest.raises(ValueError, match="2 and 11"):
        cross_validate(bank, folds=12)


def test_true_endpoint_beats_its_rivals_and_a_true_power_shows_as_one():
    endpoint = compare_links(bank_of_blend(0.5, temperature=0.4, **LARGE))
    for rival in ("softmax", "cubic", "anchor", "heavy-tail blend", "heavy-tail"):
        assert endpoint.gain("blend", rival).p_t < 0.01, rival
    bank = random_bank(**LARGE)
    power = draw_winners(bank, power_coordinate(0.5)(bank.scores) / 0.25, seed=3)
    found = compare_links(power, ("softmax", "blend", "power"))
    # The blend gains although there is no endpoint: its gain alone is no evidence for one.
    assert found.gain("blend").p_t < 0.01
    assert 0.2 < found.parameters["power"]["exponent"] < 0.8
    assert found.parameters["power"]["exponent low"] > 0


def test_every_link_contains_what_its_name_says():
    bank = bank_of_blend(0.3, batches=8)
    found = compare_links(bank)
    assert list(found.parameters) == list(LINKS)
    held_in, _ = halves(bank)
    softmax = fit_link(Design(held_in, ("identity",)))
    assert found.parameters["softmax"]["temperature"] == pytest.approx(softmax.temperature)
    blend = fit_link(Design(held_in, ("identity", "shortfall")))
    assert found.parameters["blend"]["weight of shortfall"] == pytest.approx(blend.blend[1])
    for name in LINKS:
        assert found.per_batch[name].shape == (4,)
        assert (found.per_batch[name] < 0).all()
    with pytest.raises(ValueError, match=r"'logit'.*softmax, blend"):
        compare_links(bank, ["logit"])
    with pytest.raises(ValueError, match=r"4 batches.*3"):
        halves(bank.of(range(3)))


def test_keeping_the_winner_with_hard_negatives_makes_a_blend_where_there_is_none():
    # Winners of an exact softmax. By rank they stay a softmax; with the winner kept they do not.
    bank = bank_of_blend(0.0, temperature=0.3, **LARGE)
    assert boundary_p(select_link(bank, repetitions=9).statistic) > 0.001
    kept, rank = (vary_hardness(bank, [18, 39], s) for s in ("winner kept", "by rank"))
    assert kept[0].blend > 0.5
    assert kept[0].gain > 0.02
    assert rank[0].blend < 0.05
    assert abs(rank[0].gain) < 0.002
    assert kept[1].blend == rank[1].blend < 0.05
    pool = vary_pool(bank, [18, 39], 18)
    assert pool[0].blend < 0.05 < 0.5 < pool[1].blend
    again = simulate_softmax(bank_of_blend(0.8, temperature=0.3, **LARGE))
    assert select_link(again, repetitions=9).h1.value < 0.05


def test_ablation_points_say_what_was_kept():
    bank = bank_of_blend(0.4)
    points = vary_hardness(bank, [5, 10, 19]) + vary_pool(bank, [5, 19], 5)
    assert [(p.pool, p.kept) for p in points] == [(19, 5), (19, 10), (19, 19), (5, 5), (19, 5)]
    assert points[0].shortfall < points[1].shortfall < points[2].shortfall
    assert points[0].gain == pytest.approx(points[4].gain, abs=1e-9)
    assert all(p.anchors == 1 for p in points)
    ranked = vary_hardness(bank, [5, 19], "by rank")
    assert ranked[0].anchors < 1 == ranked[1].anchors
    held_in, held_out = (half.hardest(10) for half in halves(bank))
    assert points[1].gain == pytest.approx(held_out_gain(held_in, held_out).mean(), abs=1e-9)
    with pytest.raises(ValueError, match=r"'random'.*winner kept, by rank"):
        vary_hardness(bank, [5], "random")


def with_loser(bank: ChoiceBank, places, score: float) -> ChoiceBank:
    """Some losers moved to a score."""
    scores = bank.scores.copy()
    for place in places:
        scores[place] = score
    return ChoiceBank(scores)


def test_an_item_twice_in_a_batch_decides_nothing():
    """Losers at cosine 1 are left out, whatever else is there; 0 would be the blend with them."""
    bank = bank_of_blend(0.4, temperature=0.5, batches=10)
    places = [(b, 2 * b, 1 + b) for b in range(10)]
    whole = select_link(bank, repetitions=99)
    found = select_link(with_loser(bank, places, 1.0), repetitions=99)
    assert (whole.identical, found.identical) == (0, len(places))
    assert whole.h1.low > 0.05
    # One loser of 190 less in a few anchors: the fit moves by far less than its interval.
    width = whole.h1.high - whole.h1.low
    assert abs(found.h1.value - whole.h1.value) < 0.1 * width
    assert abs(found.h0.temperature / whole.h0.temperature - 1) < 0.02
    near = with_loser(bank, places[:2], 1.0 - 1e-4)  # counted and kept
    found = select_link(near, repetitions=9)
    assert (found.identical, found.near_duplicates) == (0, near.near_duplicates)
    assert found.near_duplicates >= 2


def test_a_loser_at_cosine_one_is_as_one_that_is_not_there():
    """The same likelihood, simulated winners and parts as in the bank without it."""
    bank = random_bank(batches=6, anchors=8)
    everywhere = [(b, a, 4) for b in range(6) for a in range(8)]
    marked = with_loser(bank, everywhere, 1.0)
    without = ChoiceBank(np.delete(bank.scores, 4, axis=-1))
    theta = np.array([2.0, 0.7])
    for names in (("identity", "shortfall"), ("identity", "cubic")):
        np.testing.assert_allclose(
            Design(marked, names).log_probability(theta),
            Design(without, names).log_probability(theta),
            rtol=1e-12,
        )
        for a, b in zip(
            Design(marked, names).derivatives(theta),
            Design(without, names).derivatives(theta),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for part in ("hardest", "hardest_candidates"):
        for count in (3, 18):
            a, b = (np.sort(getattr(x, part)(count).scores[..., 1:]) for x in (marked, without))
            np.testing.assert_array_equal(a, b)
    assert marked.hardest(19).identical.sum() == 48  # all there are: places kept, counted nowhere
    drawn = draw_winners(marked, 50 * marked.scores, seed=0)
    assert (drawn.scores[..., 0] < 1.0).all()
    np.testing.assert_allclose(
        simulate_sums(marked, 3.0, repetitions=50, seed=0),
        simulate_sums(without, 3.0, repetitions=50, seed=0),
        rtol=1e-9,
    )
