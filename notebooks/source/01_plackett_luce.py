# %% [markdown]
# # 01 · InfoNCE is the likelihood of a choice
#
# **Paper:** section 2.1, Equations 2.2 and 2.3. **Time:** `quick` seconds; `cpu` minutes.
#
# [← 00](00_overview.ipynb) · [Claims](../paper/claims.toml) · [02 →](02_extreme_values.ipynb)

# %% [markdown]
# **Question.** Which model has InfoNCE as its likelihood? What does the temperature mean in it?
#
# InfoNCE is usually introduced as a classification loss. The paper starts from another reading: each anchor
# **chooses** one winner among its candidates, and the loss is the negative log-likelihood of that choice. A
# likelihood comes from a model, and a model can be right or wrong. This notebook builds the model, step by step:
# noise, winners, rankings, scores recovered from them. The last part runs the same code on travellers who choose a
# plane, a train, a bus or a car.

# %% tags=["setup"]
# `weince badges --repo OWNER/NAME` lets this cell install the library in Colab.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")

# %% tags=["parameters"]
profile = "quick"
seed = 7

# %%
import itertools

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from scipy import stats

from weince_lib import infonce_loss, plots
from weince_lib.choice import (
    best_softmax,
    fit_conditional_logit,
    fit_scores_from_rankings,
    fit_scores_from_winners,
    ranking_log_likelihood,
    sample_rankings,
    sample_winners,
    top1_log_likelihood,
    top1_probabilities,
    total_variation,
    translation_model,
)
from weince_lib.evaluation import Interval
from weince_lib.experiments import by_profile, provenance, record_checks
from weince_lib.links import gumbel_link
from weince_lib.losses.candidates import two_view_scores

torch.set_num_threads(1)
draws = by_profile(profile, quick=100_000, cpu=2_000_000)
samples = by_profile(profile, quick=30, cpu=200)

# %% [markdown]
# ## Noise turns scores into winners
#
# An anchor has candidates $j = 0, \dots, K$ with scores $s_j$. It ranks them by a
# **utility**, the score plus noise,
#
# $$U_j = \frac{s_j}{\tau} + \varepsilon_j, \qquad P(\varepsilon_j \le x) = e^{-e^{-x}}, \tag{2.3}$$
#
# and the candidate with the largest utility wins. The law of the noise is the *standard Gumbel law*. With this law, and
# independent noise, the winner has the softmax probability,
#
# $$P(\text{$k$ wins}) = \frac{e^{s_k/\tau}}{\sum_j e^{s_j/\tau}}.$$
#
# So drawing a winner from a softmax needs no normalisation: add noise, take the largest. We first check this by simulation.

# %%
scores = np.array([0.10, 0.25, 0.40, 0.50, 0.60, 0.75, 0.80, 0.95])
temperatures = (0.1, 0.3, 1.0)
shares, p_values = {}, []
for i, temperature in enumerate(temperatures):
    winners = sample_winners(scores, draws, temperature=temperature, seed=seed + i)
    counts = np.bincount(winners, minlength=len(scores))
    expected = draws * np.exp(gumbel_link(scores, temperature))
    shares[temperature] = counts / draws
    p_values.append(stats.chisquare(counts, expected * draws / expected.sum()).pvalue)
plots.winner_shares(scores, shares, draws)
plt.show()

# %% [markdown]
# *Each panel: eight candidates, how often each won (dots, with two standard errors, mostly smaller than the dots), and
# the softmax, a straight line of slope $1/\tau$ in natural logarithms. A small temperature lets the best candidate
# win most of the time; a large one lets noise decide.*
#
# Now exactly. With $F$ and $f$ the noise's distribution function and density, candidate $k$ wins if its utility is
# $t$ and all others are below,
#
# $$P(\text{$k$ wins}) = \int \prod_{j \ne k} F(t - s_j/\tau)\, f(t - s_k/\tau)\, dt .$$
#
# `top1_probabilities` computes this integral for any noise. The paper says that the softmax is exact *for any number of
# candidates*. We take up to 50 scores spread over $[-1, 1]$, as many candidates at each, and $\tau = 0.3$.


# %%
def compare(noise, n, temperature=0.3):
    """Scores, how many candidates have each, their chance of winning, and the softmax's."""
    s = np.linspace(-1, 1, min(n, 50))
    counts, weight = np.full(len(s), n // len(s)), np.exp(s / temperature)
    p = top1_probabilities(translation_model(s / temperature, noise, counts))
    return s, counts, p, weight / (counts @ weight)


# %%
sizes = (2, 10, 100, 1000, 10_000, 100_000)
gumbel, normal = stats.gumbel_r(), stats.norm(scale=np.pi / np.sqrt(6))  # of equal variance
softmax_gap, rows = 0.0, {}
for n in sizes:
    _, counts, p, softmax = compare(gumbel, n)
    softmax_gap = max(softmax_gap, np.abs(counts * (p - softmax)).max())
    s, counts, p, softmax = compare(normal, n)
    best = best_softmax(s, p, counts)
    at_03 = total_variation(p, softmax, counts)
    rows[f"{n:,}"] = {"τ = 0.3": at_03, "best τ": best.tv_temperature, "at the best τ": best.tv}
print(f"Gumbel noise, every size: softmax to 1e-10: {softmax_gap < 1e-10}")
pd.DataFrame(rows).T.rename_axis(index="candidates, normal noise").round(4)

# %% [markdown]
# The softmax is exact for Gumbel noise at every size. The table is for normal noise of the same variance: the total variation
# (half the sum of absolute differences) between its winners and a softmax. At $\tau = 0.3$ the distance grows
# with the number of candidates, since a softmax of that temperature is too soft. With the best temperature it is 0 for two
# candidates, where one temperature always fits, 0.03 for ten and 0.012 for 100,000. The law of the noise determines which
# temperature fits best. What other noise leads to is the subject of [03_link_functions](03_link_functions.ipynb).
#
# ## InfoNCE is the negative log-likelihood
#
# In a batch each image is there in two random versions, its *views*, and $s_{ij}$ is the score of views $i$ and $j$. For anchor $i$
# the candidates are all other views, and the observed winner is the other view of its own image, its *positive* $i^+$:
#
# $$L_i = -\log \frac{e^{s_{ii^+}/\tau}}{\sum_{j \ne i} e^{s_{ij}/\tau}}. \tag{2.2}$$
#
# Below, the library's loss and the log-likelihood of a choice model on the same random batch. A candidate that is not on offer, here the
# anchor itself, gets the score $-\infty$.

# %%
generator = torch.Generator().manual_seed(seed)
z0, noise = torch.randn(2, 256, 64, generator=generator, dtype=torch.float64)
z1 = z0 + noise
cosines, positives = two_view_scores(z0, z1)
tau = 0.5
logits = cosines.numpy() / tau
np.fill_diagonal(logits, -np.inf)
log_likelihood = top1_log_likelihood(logits, positives.numpy())
loss = float(infonce_loss(z0, z1, tau))
infonce_gap = abs(loss + log_likelihood.mean())
print(f"InfoNCE {loss:.6f} nats; minus the mean log-likelihood {-log_likelihood.mean():.6f}")

# %% [markdown]
# ## The temperature is the scale of the noise
#
# Multiply all utilities by $\tau$: the same candidate wins, and now $s_j + \tau \varepsilon_j$ is a score with noise of
# scale $\tau$. The temperature says how noisy the choices are, and it can be *estimated* from winners: use the score as the
# only feature and fit its coefficient $\theta = 1/\tau$ by maximum likelihood. For each of several true temperatures we
# draw winners and recover $\tau$; $z$ counts standard errors.

# %%
rows = {}
for i, tau in enumerate((0.05, 0.1, 0.2, 0.5, 1.0)):
    winners = sample_winners(scores, 20_000, temperature=tau, seed=100 + seed + i)
    fit = fit_conditional_logit(np.tile(scores[:, None], (20_000, 1, 1)), winners)
    estimate, error = 1 / fit.estimate[0], fit.standard_errors[0] / fit.estimate[0] ** 2
    rows[tau] = {"estimated τ": estimate, "standard error": error, "z": (estimate - tau) / error}
recovered = pd.DataFrame(rows).T.rename_axis("true τ")
recovered.round(4)

# %% [markdown]
# In training, $\tau$ is not estimated but set, and the encoder moves the scores. With unit vectors scores cannot
# leave $[-1, 1]$, so the temperature decides how well separated they can be.
#
# ## Not only the winner: whole rankings
#
# Sort all utilities and not only the best. With Gumbel noise the order $\pi$ is a **Plackett–Luce** ranking: the first
# place is a softmax choice among all, the second a softmax choice among those left, and so on,
#
# $$P(\pi) = \prod_{r} \frac{e^{s_{\pi(r)}/\tau}}{\sum_{t \ge r} e^{s_{\pi(t)}/\tau}}.$$
#
# Its first factor is the InfoNCE probability. We draw rankings of four candidates, count each of the 24 orders, and add
# up the orders that start with the same candidate.

# %%
four, tau = scores[[0, 2, 5, 7]], 0.4
orders = list(itertools.permutations(range(4)))
predicted = np.exp(ranking_log_likelihood(four / tau, orders))
drawn = sample_rankings(four, draws, temperature=tau, seed=200 + seed)
code = {order: i for i, order in enumerate(orders)}
seen = np.bincount([code[tuple(row)] for row in drawn.tolist()], minlength=24)
rankings_p = stats.chisquare(seen, predicted * draws / predicted.sum()).pvalue

first = np.array([predicted[[o[0] == k for o in orders]].sum() for k in range(4)])
softmax = np.exp(gumbel_link(four, tau))
first_choice_gap = float(np.abs(first - softmax).max())
pd.DataFrame({"score": four, "sum over 6 orders": first, "softmax": softmax}).round(4)

# %% [markdown]
# How far can the simulated orders be from the predicted ones? The chi-square distance per draw,
# $\sum (\hat p - p)^2/p$, has an expectation of $23/n$ under the model and grows when the model is wrong. We subtract $23/n$;
# the rest estimates the true distance. It is 0 within its error, two standard deviations under the model.

# %%
distance = float(np.sum((seen / draws - predicted) ** 2 / predicted))
noise_level, spread = 23 / draws, np.sqrt(2 * 23) / draws
plackett_luce_distance = Interval(
    distance - noise_level,
    distance - noise_level - 1.96 * spread,
    distance - noise_level + 1.96 * spread,
    draws,
)
f"{plackett_luce_distance.mean:.5f} ± {1.96 * spread:.5f}"

# %% [markdown]
# ## Scores recovered from winners and from rankings
#
# Now the inverse problem: given only the observations, find the scores. The log-likelihood is concave. If no candidate or group
# of candidates always beats the others, it has a maximum, and Newton's method finds it. Scores are determined up to a
# constant, and we give them mean 0. There are two kinds of data on the same six candidates: who won, as InfoNCE sees it, or the
# whole order. The curvature of the log-likelihood, the *information* $I$ of $n$ observations, predicts the error:
# $\sqrt{\operatorname{tr} I^{+} / 6}$. $I^+$ is the pseudo-inverse, because a constant added to all scores changes nothing.

# %%
true = np.array([0.8, 0.5, 0.2, -0.2, -0.5, -0.8])
observations = np.array([200, 800, 3200])  # enough for every candidate to win sometimes


def recover(kind, n, sample):
    """Squared error of the recovered scores, averaged over the six candidates."""
    start = 1000 * sample + n
    if kind == "winners":
        won = sample_winners(true, n, seed=start)
        fit = fit_scores_from_winners(np.tile(np.arange(6), (n, 1)), won, 6)
    else:
        fit = fit_scores_from_rankings(sample_rankings(true, n, seed=start), 6)
    return np.mean((fit.estimate - true) ** 2)


# %% [markdown]
# For winners, one observation carries the information $I_1 = \operatorname{diag}(p) - pp^\top$. For rankings it is
# the expected sum of the same matrix over the choices among the remaining candidates, an average over all $6! = 720$ orders.


# %%
def choice_information(left):
    """Covariance matrix of one softmax choice among the candidates that are left."""
    p = np.zeros(6)
    p[left] = np.exp(true[left]) / np.exp(true[left]).sum()
    return np.diag(p) - np.outer(p, p)


orders = list(itertools.permutations(range(6)))
chances = np.exp(ranking_log_likelihood(true, orders))
information = {
    "winners": choice_information(range(6)),
    "rankings": sum(
        chance * sum(choice_information(list(order[place:])) for place in range(5))
        for order, chance in zip(orders, chances, strict=True)
    ),
}
per_observation = {kind: np.trace(np.linalg.pinv(i)) / 6 for kind, i in information.items()}
theory = {kind: np.sqrt(value / observations) for kind, value in per_observation.items()}

# %%
measured = {}
for kind in information:
    squares = np.array([[recover(kind, n, k) for k in range(samples)] for n in observations])
    error = np.sqrt(squares.mean(axis=1))
    measured[kind] = (error, squares.std(axis=1, ddof=1) / np.sqrt(samples) / (2 * error))
plots.score_recovery(observations, measured, theory)
plt.show()

# %% [markdown]
# *Dots: simulation, with two standard errors. Lines: what the information predicts, for large $n$. Both errors fall as
# $1/\sqrt n$, and the dots agree with the lines within their errors.*

# %%
worth = per_observation["winners"] / per_observation["rankings"]
print(f"one ranking of six is worth {worth:.1f} winners")

# %% [markdown]
# A ranking of six is five choices and is worth more than five winners, because the later places compare the low scores, which
# seldom win. InfoNCE has no rankings: the data say which candidate is the positive and nothing about the order of the
# negatives. It uses the first factor because the data contain only the first place.
#
# ## The same likelihood on people
#
# The model is older than contrastive learning: it is the *conditional logit* of discrete choice. A public data set: 210
# travellers between Sydney and Melbourne, each choosing air, train, bus or car (Greene's, in `statsmodels`). The
# score is linear in the features: a constant for each mode but the car, the generalised cost, the terminal waiting
# time, and the household income for air. Greene's textbook, *Econometric Analysis*, gives
# $-199.1284$ as the log-likelihood of this model.

# %%
import statsmodels.api as sm

data = sm.datasets.modechoice.load_pandas().data
column = {name: data[name].to_numpy().reshape(210, 4) for name in data}
modes = enumerate(("air", "train", "bus"), start=1)
features = {name: (column["mode"] == k).astype(float) for k, name in modes}
features |= {"cost": column["gc"], "waiting time": column["ttme"]}
features |= {"income, if air": column["hinc"] * features["air"]}
travel = fit_conditional_logit(
    np.stack(list(features.values()), axis=2), column["choice"].argmax(axis=1)
)
mode_choice_gap = abs(travel.log_likelihood - -199.1284)
print(f"log-likelihood {travel.log_likelihood:.4f}")
pd.DataFrame(
    {"coefficient": travel.estimate, "standard error": travel.standard_errors}, index=features
).round(4)

# %% [markdown]
# Waiting counts: ten minutes at the terminal multiply the odds of a mode by $e^{-0.96} \approx 0.38$. The scale of
# the coefficients is again a temperature: they are in units of the noise.
#
# ## Answer
#
# InfoNCE is the negative log-likelihood of a choice: every candidate gets its score over $\tau$ plus Gumbel noise, and the
# positive is the one that won. The temperature is the scale of the noise, and winners tell it: five true
# temperatures are found within two standard errors. Two things are assumed: the noise is Gumbel, and it is added to the
# score. With normal noise and 100,000 candidates a softmax at the scores' own $\tau$ is 0.40 off, and 0.012 at the best $\tau$.
#
# **What it rests on.** An integral that agrees with the softmax to $10^{-10}$, simulation, and the published log-likelihood of 210
# travellers' choices, $-199.1284$, which the same code gives.
#
# **What it does not show.** Whether an encoder's choices have such noise. All choices but the travellers' are simulated. [03](03_link_functions.ipynb) asks what other
# laws give, and why three kinds of answer remain when candidates are many.

# %%
record = record_checks(
    "01_plackett_luce",
    {
        "infonce_is_minus_log_likelihood_gap": infonce_gap,
        "gumbel_softmax_gap": softmax_gap,
        "first_choice_gap": first_choice_gap,
        "plackett_luce_distance": plackett_luce_distance,
        "winners_smallest_p_value": min(p_values),
        "mode_choice_gap": mode_choice_gap,
        "winners_per_ranking": worth,
    },
    profile=profile,
    settings={"seed": seed},
)

# %% tags=["checks", "hide-input"]
# Checks of the values that the text states.
assert min(p_values) > 1e-4 / len(temperatures)  # correct draws fail once in 10,000 runs
assert softmax_gap < 1e-10 and infonce_gap < 1e-12 and first_choice_gap < 1e-14
assert (
    recovered["z"].abs().max() < (2 if profile == "quick" and seed == 7 else 4.5)
    and rankings_p > 1e-4
)
assert abs(plackett_luce_distance.mean) < 5 * spread
for kind, (error, deviation) in measured.items():
    assert abs(error[-1] / theory[kind][-1] - 1) < 5 * deviation[-1] / error[-1] + 0.03
assert mode_choice_gap < 1e-4
print("checked")

# %% tags=["nbval-ignore-output"]
provenance()
