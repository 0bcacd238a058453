# %% [markdown]
# # 03 · Which link belongs to which tail?
#
# **Paper:** sections 2.2.2 and 2.2.3, Table 1, Theorem 2.4, Appendix B and C.3, Figures 1 and 2. **Time:** `quick` half a minute; `cpu` minutes.
#
# [← 02](02_extreme_values.ipynb) · [Contents](00_overview.ipynb) · [Claims](../paper/claims.toml) · [04 →](04_misspecification.ipynb)

# %% [markdown]
# **Question.** A softmax gives a candidate with score $s$ a winning probability proportional to $e^{s/\tau}$. When is that
# right, what is right otherwise, and does a batch of scores tell which case it is?
#
# By [01](01_plackett_luce.ipynb), InfoNCE is the likelihood of a choice if Gumbel noise is added to the score.
# With few candidates, each law of the noise gives its own winning probabilities. With many, the winner comes from
# the upper tail. Where the maximum has a limit law, the tail has one of three kinds: heavy (Fréchet), light
# (Gumbel), or a power of the distance to a finite endpoint, the *cap* (Weibull). Each kind has its own
# **link**: the function of the score that winning probabilities are proportional to. Its logarithm is a *logit*.
#
# We compare computed winning probabilities with the links. Then we ask what a wrong link costs, and what a batch of
# scores can say about the right one.

# %% tags=["setup"]
# `weince badges --repo OWNER/NAME` lets this cell install the library in Colab.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")

# %% tags=["parameters"]
profile = "quick"
seed = 7
alpha = 2.0
beta = 2.0
scale = 0.2

# %%
import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from scipy import special, stats

from weince_lib import plots, tail_evidence
from weince_lib.choice import (
    best_softmax,
    fit_winners,
    scaling_model,
    shortfall_model,
    simulate_winners,
    tail_weights,
    top1_log_likelihood,
    top1_probabilities,
    top1_probabilities_of_laws,
    total_variation,
    translation_model,
)
from weince_lib.evaluation import Interval
from weince_lib.experiments import by_profile, record_checks
from weince_lib.links import frechet_link, gumbel_link, weibull_link

draws = by_profile(profile, quick=100_000, cpu=2_000_000)
sizes = [10, 100, 1000, 10_000, 100_000]

# %% [markdown]
# ## Three geometries in one picture
#
# A candidate with score $s$ has a random utility $X_s$. The paper's three models differ in *how* the score enters, and
# each has a coordinate $T$ in which the noise is added. There the score enters through $\eta(s)$, which is $\log\rho(s)$ for
# Fréchet and $-\log q(s)$ for Weibull. $\xi$ is the shape of the tail, see [02](02_extreme_values.ipynb).
#
# | tail | utility | coordinate $T$ | $T(X_s) = \eta(s) + \text{noise}$ | link |
# |---|---|---|---|---|
# | Gumbel, $\xi = 0$ | $X_s = \eta(s) + \varepsilon$ | $x$ | $\eta(s) + \varepsilon$ | $p_j \propto e^{\eta(s_j)/a}$ |
# | Fréchet, $\xi = 1/\alpha$ | $X_s = \rho(s)\,Z$ | $\log x$ | $\log\rho(s) + \log Z$ | $p_j \propto \rho(s_j)^{\alpha}$ |
# | Weibull, $\xi = -1/\beta$ | $x_F - X_s = q(s)\,W$ | $-\log(x_F - x)$ | $-\log q(s) - \log W$ | $p_j \propto q(s_j)^{-\beta}$ |
#
# A better score moves the utility by $\eta$, or stretches it by $\rho > 0$, or shrinks its distance to the cap $x_F$ by $q$.
# For cosines the cap is 1 and $q(s) = 1 - s$. The scale $a$ and the shapes $\alpha$, $\beta$ belong to the noise.

# %%
figure = plots.framework()
plots.save_figure(figure, "figure_1_framework")
plt.show()

# %% [markdown]
# *One row per tail. Left: the utilities of a weaker and a better candidate. Middle: the same two laws in the coordinate
# $T$, where they differ by a shift only. Right: the log-odds of a candidate against a rival at 0.5. Near the cap the
# Weibull log-odds grow without bound. The Gumbel log-odds, those of a softmax, are a straight line.*
#
# First we check the middle column of the figure. We compute $P(T(X_s) \le \eta(s) + u)$ for four scores, with scipy's own
# location and scale. It must be the same for all four.

# %%
scores = np.array([0.15, 0.45, 0.70, 0.90])
u = np.linspace(-1.0, 3.0, 41)
gumbel, frechet, weibull = stats.gumbel_r, stats.invweibull, stats.weibull_min
in_coordinate = {
    "Gumbel": [gumbel(loc=s, scale=scale).cdf(s + u) for s in scores],
    "Fréchet": [frechet(alpha, scale=s).cdf(np.exp(np.log(s) + u)) for s in scores],
    "Weibull": [
        weibull(beta, scale=q).sf(np.exp(-(-np.log(q) + u)))  # 1 - x at T(x) = -log q + u
        for q in 1 - scores
    ],
}
additive_spread = max(float(np.ptp(laws, axis=0).max()) for laws in in_coordinate.values())
print(f"the same at every score, to 1e-12: {additive_spread < 1e-12}")

# %% [markdown]
# ## Table 1, computed
#
# The laws named Gumbel, Fréchet and (with its sign turned) Weibull are *max-stable*: up to shift and scale, the maximum of
# several draws is of the same law again. With such noise the links are exact. The probability of winning is
#
# $$P(\text{$k$ wins}) = \int \prod_{j \ne k} F_j(t)\, f_k(t)\, dt.$$
#
# We compute it for four cosines in three ways: by numerical integration, from the link, and by simulating utilities.

# %%
table_1 = {
    "Gumbel": (
        translation_model(scores, gumbel(scale=scale)),
        gumbel_link(scores, scale),
    ),
    "Fréchet": (scaling_model(scores, frechet(alpha)), frechet_link(scores, alpha)),
    "Weibull": (shortfall_model(1 - scores, weibull(beta)), weibull_link(scores, beta)),
}
columns, link_gap, p_values = {}, {}, []
for name, (model, link) in table_1.items():
    integral = top1_probabilities(model)
    wins = np.bincount(simulate_winners(model, draws, seed=seed), minlength=4)
    link_gap[name] = float(np.abs(integral - np.exp(link)).max())
    p_values.append(stats.chisquare(wins, draws * integral / integral.sum()).pvalue)
    ways = {"integral": integral, "link": np.exp(link), "simulated": wins / draws}
    columns[name] = pd.DataFrame(ways, index=pd.Index(scores, name="cosine"))
print(f"integral and link differ by less than 1e-10: {max(link_gap.values()) < 1e-10}")
pd.concat(columns, axis=1).round(3)

# %% [markdown]
# The three models rank the candidates alike and disagree about *how much* better the best one is. That is what a link
# decides.
#
# How far off is a softmax if the law is another one? Keep the four scores and change the law of utility given score: normal
# noise; Gumbel noise whose scale depends on the score; a shortfall from the cap. For each, we look for the softmax with the
# **best** temperature. The table shows its distance, the total variation $\frac12\sum_j |p_j - \hat p_j|$, and a proven lower
# bound: no temperature gets closer.

# %%
others = {
    "normal noise": top1_probabilities(translation_model(scores, stats.norm(scale=scale))),
    "Gumbel, scale 0.1 + 0.2 s": top1_probabilities_of_laws(
        [gumbel(loc=s, scale=0.1 + 0.2 * s) for s in scores]
    ),
    "shortfall from the cap": np.exp(weibull_link(scores, beta)),
}
closest = {name: best_softmax(scores, p) for name, p in others.items()}
other_links = pd.DataFrame(
    {
        name: {"best τ": f.tv_temperature, "what remains": f.tv, "proven to be above": f.tv_low}
        for name, f in closest.items()
    }
).T
other_links.round(4)

# %% [markdown]
# The best softmax is 0.02 to 0.03 away. With many candidates only three answers remain.
#
# ## Many candidates: other noise finds the same link
#
# Real noise is not max-stable. Take other laws from each *domain of attraction* (the laws whose maxima approach the
# max-stable one): logistic and normal noise for Gumbel; Pareto and Burr for Fréchet; the beta law and the gamma
# law, as shortfalls, for Weibull. We choose scores so that the logit is one of five values $v$, a fifth of the
# candidates each. The link is then $p_j \propto \exp(v_j)$ in all three families:
#
# $$v \in \{-1, -\tfrac12, 0, \tfrac12, 1\}, \qquad \eta = a_n v, \qquad \rho = \exp(v/\alpha), \qquad q = \exp(-v/\beta).$$
#
# $a_n$ is the scale of the noise's tail at the level $c_n$ that is passed with probability $1/n$: the survival probability
# there over the density. For logistic noise it tends to 1. For normal noise it shrinks about like $1/\sqrt{2 \log n}$:
# **the temperature that fits depends on the number of candidates.**

# %%
v = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def tail_scale(noise, n):
    """a_n: survival over density at the level that is passed with probability 1/n."""
    if noise.dist.name == "gumbel_r":
        return 1.0  # max-stable noise has scale 1 at every n
    return (1 / n) / noise.pdf(noise.isf(1 / n))


def candidates(domain, noise, n):
    """n candidates, a fifth for each value of v."""
    counts = np.full(5, n // 5)
    if domain == "Gumbel":
        return translation_model(tail_scale(noise, n) * v, noise, counts)
    if domain == "Fréchet":
        return scaling_model(np.exp(v / alpha), noise, counts)
    return shortfall_model(np.exp(-v / beta), noise, counts)


def distances(domain, noise, n):
    """Total variation of the winning probabilities from the link, and from the tail weights."""
    model = candidates(domain, noise, n)
    p, link = top1_probabilities(model), np.exp(v) / (model.counts @ np.exp(v))
    weights = np.exp(tail_weights(model))
    return [total_variation(p, other, model.counts) for other in (link, weights)]


scales_of = {
    name: [tail_scale(law(), n) for n in sizes]
    for name, law in {"logistic": stats.logistic, "normal": stats.norm}.items()
}
pd.DataFrame(scales_of, index=pd.Index([f"{n:,}" for n in sizes], name="candidates")).T.round(3)

# %%
laws = {
    "Gumbel": {"Gumbel": gumbel(), "logistic": stats.logistic(), "normal": stats.norm()},
    "Fréchet": {
        "Fréchet": frechet(alpha),
        "Pareto": stats.pareto(alpha),
        "Burr": stats.burr12(alpha / 2, 2.0),
    },
    "Weibull": {
        "Weibull": weibull(beta),
        "beta law": stats.beta(beta, 1.0),
        "gamma law": stats.gamma(beta),
    },
}
both = {
    domain: {
        law: np.array([distances(domain, noise, n) for n in sizes]) for law, noise in of.items()
    }
    for domain, of in laws.items()
}
to_link = {domain: {law: far[:, 0] for law, far in of.items()} for domain, of in both.items()}

# %%
figure = plots.convergence(sizes, to_link, "total variation from the link")
if (alpha, beta) == (2.0, 2.0):
    plots.save_figure(figure, "link_convergence")
plt.show()

# %% [markdown]
# *Distance between true winner probabilities and Table 1's link. Grey: max-stable noise, exact at every size (drawn at
# $10^{-13}$). The other laws approach the link at a rate of their own.*
#
# The rates can be predicted. If the tail has its limit's form up to a relative error of $n^{-r}$, the distance falls like
# the slower of $1/n$ and $n^{-r}$. Pareto and the beta law are pure powers, and the logistic tail is
# $e^{-x}(1 + O(e^{-x}))$: rate 1. Burr and gamma: rate $1/2$. For the normal law the error is of order
# $1/c_n^2 \approx 1/(2\log n)$, with $c_n$ the level from above.
#
# The table has the slopes measured from $10^4$ to $10^5$ candidates. For the normal law we go from $10^{11}$ to $10^{12}$ and take
# the slope in $c_n^2$. Equal candidates are computed once, so that large numbers cost nothing.

# %%
rates = {"logistic": 1.0, "Pareto": 1.0, "beta law": 1.0}
rates |= {"Burr": 0.5, "gamma law": min(1.0, 1 / beta)}
every = {law: values for laws_of in to_link.values() for law, values in laws_of.items()}
slopes = {law: np.log10(every[law][-2] / every[law][-1]) for law in rates}
near, far = (distances("Gumbel", stats.norm(), n)[0] for n in (10**11, 10**12))
level_near, level_far = (stats.norm.isf(1 / n) ** 2 for n in (10**11, 10**12))
slopes["normal, in c²"] = float(np.log(near / far) / np.log(level_far / level_near))
rates["normal, in c²"] = 1.0
worst_rate = max(abs(slopes[law] - rates[law]) for law in rates if "normal" not in law)
furthest = float(max(values[-1] for values in every.values()))
print(f"largest distance from the link at 100,000 candidates: {furthest:.4f}")
pd.DataFrame({"predicted": rates, "measured": slopes}).round(3)

# %% [markdown]
# ## Theorem 2.4: only the tail at one level matters
#
# The paper explains the three links in two steps. First: let $b_n$ be the level that one candidate passes on average,
# $\sum_j P(X_{s_j} > b_n) = 1$. With many candidates, the probability that candidate $i$ wins approaches its
# **tail weight**, the probability that it passes this level:
#
# $$P(\text{$i$ wins}) \approx \bar F_{s_i}(b_n), \qquad \bar F_s(t) = P(X_s > t).$$
#
# The table has the total variation between winning probabilities and tail weights.

# %%
weights_table = pd.DataFrame(
    {law: far[:, 1] for of in both.values() for law, far in of.items()},
    index=pd.Index([f"{n:,}" for n in sizes], name="candidates"),
)
theorem_gap = float(weights_table.iloc[-1].max())
weights_table.map("{:.1e}".format)

# %% [markdown]
# From 100 candidates on all columns fall, the normal law's slowly again. The theorem needs condition (I) of Appendix A:
# the largest of the tail weights goes to 0. Training aims at the opposite case, a positive that nearly always wins. So we
# give one candidate half of all wins, whatever $n$, with Gumbel noise, where the link stays exact:

# %%
favourite = []
for n in sizes:
    model = translation_model([0.0, np.log(n - 1)], gumbel(), [n - 1, 1])
    p, weight = top1_probabilities(model)[1], np.exp(tail_weights(model)[1])
    favourite.append({"wins": p, "tail weight": weight})
favourite = pd.DataFrame(favourite, index=weights_table.index)
favourite_gap = float(favourite["wins"].iloc[-1] - favourite["tail weight"].iloc[-1])
favourite.round(4)


# %% [markdown]
# The favourite wins half of the time. Its tail weight is 0.433 at every large $n$. The theorem is about many candidates of
# comparable standing. Where the noise is max-stable, the *links* hold without it.
#
# ## From tail weights to links (Theorem B.2)
#
# Second: in each domain the ratio of two tail weights approaches a simple form, which depends on the scores and on one number
# of the noise:
#
# $$\log\frac{\bar F_{s}(b_n)}{\bar F_{s'}(b_n)} \approx \frac{\eta(s) - \eta(s')}{a_n}, \quad \alpha \log\frac{\rho(s)}{\rho(s')}, \quad -\beta \log\frac{q(s)}{q(s')}.$$
#
# For our candidates all three are $v - v'$. How far off is the worst pair, in nats, at $10^5$ and at $10^{12}$ candidates?


# %%
def ratio_gap(domain, noise, n):
    """Largest difference between a log-ratio of tail weights and its limit."""
    difference = tail_weights(candidates(domain, noise, n)) - v
    return float(np.ptp(difference))


ratios = {
    (domain, law): {f"{n:.0e}": ratio_gap(domain, noise, n) for n in (10**5, 10**12)}
    for domain, noises in laws.items()
    for law, noise in noises.items()
}
ratio_table = pd.DataFrame(ratios).T
by_domain = {domain: float(ratio_table.loc[domain, "1e+12"].max()) for domain in laws}
ratio_table.map(lambda gap: f"{gap:.1e}" if gap > 1e-14 else "exact")

# %% [markdown]
# Seven gaps fall, the normal law's about like $1/\log n$. Two are zero, because the tails of Pareto's and of the beta law are
# exact powers. Different laws of one kind lead to the same link.
#
# ## Why $1 - s$ is the right shortfall
#
# The Weibull link uses $q(s) = 1 - s$. The paper notes that near the cap any other differentiable $q$ with $q(1) = 0$ is close
# to a constant times $1 - s$, and the constant cancels. We take four candidates with shortfalls $\delta$, $2\delta$, $3\delta$ and
# $5\delta$ and let $\delta$ shrink. Three scales have a slope at the cap: $\log\frac{2}{1+s}$, $1 - s^2$ and the squared angle
# $\arccos(s)^2$. Two have a slope of zero or without bound there: $(1-s)^2$ and the angle $\arccos(s)$. The table has the
# distance between the link of each scale and that of $1 - s$.

# %%
scales = {
    "log(2/(1 + s))": lambda d: -np.log1p(-d / 2),
    "1 − s²": lambda d: d * (2 - d),
    "arccos(s)²": lambda d: (2 * np.arcsin(np.sqrt(d / 2))) ** 2,
    "(1 − s)²": lambda d: d**2,
    "arccos(s)": lambda d: 2 * np.arcsin(np.sqrt(d / 2)),
}


def scale_gap(q, delta):
    """Total variation between the Weibull links of q and of 1 - s."""
    d = delta * np.array([1.0, 2.0, 3.0, 5.0])
    links = (np.exp(weibull_link(-x, beta, endpoint=0.0)) for x in (q(d), d))
    return total_variation(*links)


nearness = (1e-1, 1e-2, 1e-3, 1e-4)
scale_table = pd.DataFrame(
    {name: [scale_gap(q, d) for d in nearness] for name, q in scales.items()},
    index=pd.Index(nearness, name="δ"),
)
regular = scale_table.iloc[-1, :3].max()
scale_table.round(5)


# %% [markdown]
# The first three agree with $1 - s$ in the limit. The last two do not: the paper's note needs a slope at the cap that is
# finite and not zero. $(1-s)^2$ has the links of $1-s$ with half the $\beta$. So only $q$ and $\beta$ together have a meaning.
#
# ## What a wrong link costs
#
# Now let winners follow the Weibull link with exponent $\beta$, and fit a softmax. The candidates are spread evenly over the
# sphere in four dimensions. With more of them, the nearest come closer to the cap. The density of their shortfalls near the
# cap is a power, $\delta^{1.5 - 1}$, and 1.5 is called its *index*. Since $\beta = 2$ exceeds the index, the nearest candidate keeps a
# large share of the wins however many there are, and Theorem 2.4 does not apply.


# %%
def pool(n):
    """Shortfalls of n candidates at the middle quantiles of the sphere's law; S^3."""
    cosines = stats.beta(1.5, 1.5, loc=-1, scale=2)
    return 1 - cosines.isf((np.arange(n) + 0.5) / n)


pools = {n: pool(n) for n in (16, 256, 4096)}
truth = {n: weibull_link(-q, beta, endpoint=0.0) for n, q in pools.items()}
best = {n: best_softmax(1 - q, np.exp(truth[n])) for n, q in pools.items()}
fitted = {n: gumbel_link(1 - q, best[n].kl_temperature) for n, q in pools.items()}
error = {n: fitted[n] - truth[n] for n in pools}
cost = pd.DataFrame(
    {
        f"{n:,}": {
            "nearest shortfall": q[0],
            "τ of maximum likelihood": best[n].kl_temperature,
            "Kullback–Leibler, truth to softmax (nats)": best[n].kl,
            "τ of least total variation": best[n].tv_temperature,
            "total variation left": best[n].tv,
            "nearest wins: true": np.exp(truth[n][0]),
            "nearest wins: softmax": np.exp(fitted[n][0]),
            "log-odds, best to second: true": truth[n][0] - truth[n][1],
            "log-odds, best to second: softmax": fitted[n][0] - fitted[n][1],
        }
        for n, q in pools.items()
    }
)
cost.round(3)

# %%
temperatures = np.geomspace(0.001, 3.0, 250)
distances = {
    n: np.array(
        [total_variation(np.exp(gumbel_link(1 - q, t)), np.exp(truth[n])) for t in temperatures]
    )
    for n, q in pools.items()
}
marked = {n: (best[n].tv_temperature, best[n].tv) for n in pools}
figure = plots.wrong_link(temperatures, distances, marked, pools, error)
if (alpha, beta) == (2.0, 2.0):
    plots.save_figure(figure, "wrong_link")
plt.show()

# %% [markdown]
# *Left: distance from the truth, the temperature of least distance marked. Right: at the temperature of maximum likelihood, the
# error of each candidate's log-probability, the nearest one marked. The softmax gives too little to the nearest, too much to the next,
# and too little to all that are far.*
#
# The best temperature moves with their number. A lower one sharpens all differences, the Weibull link those near
# the cap most.
#
# ## No temperature repairs it (Appendix C.3)
#
# The general statement: if the increasing coordinate $T$ is not affine (a straight line), no temperature makes
# softmax$(s/\tau)$ equal to softmax$(T(s))$ for every set of scores. Three candidates fix two log-odds,
#
# $$T(s_3) - T(s_2) = \frac{s_3 - s_2}{\tau}, \qquad T(s_2) - T(s_1) = \frac{s_2 - s_1}{\tau},$$
#
# and one $\tau$ can satisfy both only if $T$ is a straight line through the three. For the cosines 0, 0.5 and 0.95, the table
# shows the distance that the best softmax leaves. Two rows must be zero: an affine $T$, and two candidates alone.

# %%
transforms = {
    "−log(1 − s)": lambda s: -np.log1p(-s),
    "log(1 + s)": np.log1p,
    "s²": np.square,
    "eˢ": np.exp,
    "3 s − 1 (affine)": lambda s: 3 * s - 1,
}
three = np.array([0.0, 0.5, 0.95])
mismatch = {
    name: best_softmax(three, np.exp(gumbel_link(T(three)))) for name, T in transforms.items()
}
pair = best_softmax(three[1:], np.exp(gumbel_link(-np.log1p(-three[1:]))))
shown = mismatch | {"−log(1 − s), two candidates": pair}
pd.DataFrame(
    {name: {"what remains": f.tv, "proven to be above": f.tv_low} for name, f in shown.items()}
).T.round(4)

# %% [markdown]
# ## The coordinate near the cap (Figure 2)
#
# Twelve candidates, drawn in both coordinates.


# %%
def share_of_range(x):
    """Room between the best and the third best, relative to the whole range."""
    return float((x[-1] - x[-3]) / np.ptp(x))


crowd = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 0.005, 0.002, 0.001])
figure = plots.spread_near_cap(crowd)
plots.save_figure(figure, "figure_2_coordinate")
plt.show()
in_cosine, in_shortfall = share_of_range(1 - crowd), share_of_range(-np.log(crowd))
spread_gain = in_shortfall / in_cosine
print(f"The best three take {in_cosine:.1%} of the range in cosines,")
print(f"and {in_shortfall:.0%} in −log(1 − s).")


# %% [markdown]
# *Above, cosines: the best candidates are one dot. Below, the coordinate −log(1 − s) keeps them apart: halving the shortfall
# is always the same step.*
#
# ## Two tails that are not the same
#
# So far the *tail* belonged to the noise in the utilities. A batch has another tail: that of its **scores**, the law of the
# negatives' cosines near 1. WEINCE reads two numbers from this one: $\hat\beta$, the index of the shortfalls, and the
# *gate* $\lambda$, the share of the endpoint link in the loss. Does this tail tell which link is right?
#
# Take one set of scores and draw winners twice. The 1,024 directions are uniform on the sphere in four dimensions, so
# their cosines end at 1 with index 1.5. Every direction chooses among the others, first with Gumbel noise
# added to $s/\tau$, then with Weibull noise times the shortfall $1 - s$.

# %%
rng = np.random.default_rng(seed)
directions = rng.normal(size=(1024, 4))
directions /= np.linalg.norm(directions, axis=1, keepdims=True)
cosines = directions @ directions.T
other = ~np.eye(1024, dtype=bool)
positives = torch.arange(1024).roll(512)  # any will do: a positive is left out of the tail
reading = tail_evidence(torch.from_numpy(cosines), positives)
utilities = {
    "Gumbel noise, added": cosines / scale + rng.gumbel(size=cosines.shape),
    "Weibull noise, a factor": -(1 - cosines) * rng.weibull(beta, size=cosines.shape),
}

# %%
coordinates = {
    "linear, s": cosines,
    "endpoint, −log(1 − s)": -np.log(np.where(other, 1 - cosines, 1)),
}
two_tails = {}
for noise, utility in utilities.items():
    chosen = np.where(other, utility, -np.inf).argmax(1)
    row = {"β̂ of the scores": float(reading.beta.median()), "mean λ": float(reading.lam.mean())}
    for link, coordinate in coordinates.items():
        slope = fit_winners(coordinate, chosen, mask=other).slope
        logits = np.where(other, float(slope) * coordinate, -np.inf)
        row[f"slope, {link}"] = float(slope)
        row[f"nats, {link}"] = top1_log_likelihood(logits, chosen).mean()
    two_tails[noise] = row
pd.DataFrame(two_tails).round(2)

# %% [markdown]
# The scores are the same in both columns, so $\hat\beta$ and the gate's $\lambda$ are the same. The right link differs.
# Under Gumbel noise the linear link has the higher likelihood (*nats*: mean log-likelihood of a choice), and its fitted
# slope is near $1/\tau = 5$. Under Weibull noise the endpoint link has the higher likelihood, and its slope is near the
# noise's $\beta = 2$, away from the scores' 1.5. The gate gives the endpoint link a fifth, although these scores do
# end at 1.
#
# **The tail of the scores does not decide the link.** WEINCE assumes that scores with a bounded tail come with noise that
# multiplies the shortfall. The scores do not imply it. The paper itself does not treat its scores as utilities.

# %% [markdown]
# ### A third view: the density ratio
#
# InfoNCE can also be read without noise. The logit that minimises it is the log ratio of two densities of the
# cosine, that of positives and that of negatives: $h(s) = \log f_+(s)/f_-(s)$. We can compute it. Take three kinds of
# positives among uniform negatives on the sphere in $d$ dimensions, with $m = d - 1$ and $\delta = 1 - s$:
#
# | positives | $h$ |
# |---|---|
# | von Mises–Fisher, concentration $\kappa$ | $\kappa s$: linear, in every dimension |
# | beta law of the shortfall, near the cap like $\delta^{\beta_+ - 1}$ | $-(\beta_- - \beta_+)\log\delta$, with $\beta_- = m/2$ |
# | von Mises–Fisher with $\kappa \sim \mathrm{Gamma}(a, \text{rate } \varepsilon)$ | $-(a + m/2)\log(\delta + \varepsilon)$ |
#
# All hold up to a constant. The first two are exact, the third is approximate and better for larger $\kappa$.

# %%
m, kappa, index_positive, shape, core = 3, 8.0, 0.5, 4.0, 0.1
delta = np.geomspace(1e-3, 1.0, 13)
negatives = stats.beta(m / 2, m / 2, scale=2)  # law of the shortfall, uniform directions


def mixed_density(d):
    """Von Mises-Fisher positives whose concentration varies, by quadrature over it."""
    k = stats.gamma(shape, scale=1 / core).ppf((np.arange(4000) + 0.5) / 4000)
    norm = special.ive(m / 2 - 0.5, k) / k ** (m / 2 - 0.5)  # of exp(-k δ), up to a constant
    return (np.exp(-k * d[:, None]) / norm).mean(1) * (d * (2 - d)) ** (m / 2 - 1)


# %%
pole = np.eye(m + 1)[0]
at = np.outer(1 - delta, pole) + np.outer(np.sqrt(delta * (2 - delta)), np.eye(m + 1)[1])
critics = {
    "von Mises–Fisher": (stats.vonmises_fisher(pole, kappa).logpdf(at), -kappa * delta),
    "beta law": (
        stats.beta(index_positive, m / 2, scale=2).logpdf(delta) - negatives.logpdf(delta),
        -(m / 2 - index_positive) * np.log(delta),
    ),
    "varying concentration": (
        np.log(mixed_density(delta)) - negatives.logpdf(delta),
        -(shape + m / 2) * np.log(delta + core),
    ),
}
ratio_gaps = {name: float(np.ptp(h - formula)) for name, (h, formula) in critics.items()}
ranges = {name: float(np.ptp(formula)) for name, (_, formula) in critics.items()}
pd.DataFrame({"departure from the formula (nats)": ratio_gaps, "range of h": ranges}).round(3)


# %% [markdown]
# ## Answer
#
# **A softmax fits when Gumbel-type noise is added to the score. When noise multiplies the shortfall, $(1-s)^{-\beta}$ fits, and no
# temperature replaces it.** The best softmax stays 0.10 (16 candidates) to 0.22 (4,096) away in total variation. At maximum
# likelihood, with 4,096, it gives the nearest candidate 5 % of the wins where 48 % are true. Fréchet noise calls for
# $\rho^\alpha$.
#
# **The scores of a batch do not tell which case it is.** With the same scores ($\hat\beta = 1.44$, mean $\lambda = 0.21$) the linear
# link wins by 0.37 nats under one noise and the endpoint link by 1.12 under the other. WEINCE reads the tail of the
# scores, and the tail of the noise decides the link.
#
# As a density ratio, an endpoint link is right where $f_+/f_-$ grows like a power of $1/(1-s)$.
#
# | view | gives an endpoint link if | what $\beta$ is |
# |---|---|---|
# | tail of the scores (WEINCE's gate) | the negatives' cosines end at 1 and the gate finds it | index of the negatives |
# | law of the noise (Table 1) | noise is a factor of the shortfall | shape of the noise |
# | density ratio | positives follow a power law of the shortfall | negatives' index minus positives' |

# %% [markdown]
# **What it rests on.** For max-stable noise integral and link agree to $10^{-10}$. For other noise the links are limits: at
# $10^5$ candidates they are within 0.007, and the distance falls like $1/n$, like $1/\sqrt n$, or, for normal noise, only like
# $1/\log n$. At 100 candidates normal noise is 0.017 from the link. Two tails: one set of 1,024 directions, one seed.
# The noise laws and $\alpha = \beta = 2$ are our choice.
#
# **What it does not show.** Theorem 2.4 does not cover a candidate that wins often, such as a trained positive: the favourite wins
# 0.5 and has a tail weight of 0.433. What a wrong link costs was computed with winners drawn from the Weibull link. Nothing here says which
# view describes a trained encoder. [08_tail_evidence](08_tail_evidence.ipynb) measures the tail of the scores,
# [09_link_selection](09_link_selection.ipynb) fits links to winners, and [12_what_drives_the_gain](12_what_drives_the_gain.ipynb)
# asks what helps in training.


# %% tags=["checks", "hide-input"]
# Checks of the values that the text states, at the parameters that it states them for.
smallest_left = min(closest.values(), key=lambda found: found.tv_low)
left = {name: found.tv_low for name, found in mismatch.items() if "affine" not in name}
least = min(left, key=left.get)
right = {"Gumbel noise, added": "linear, s", "Weibull noise, a factor": "endpoint, −log(1 − s)"}
wrong = dict(zip(right, reversed(right.values()), strict=True))
true_links = {noise: two_tails[noise][f"slope, {link}"] for noise, link in right.items()}
wrong_minus_right = {
    noise: two_tails[noise][f"nats, {wrong[noise]}"] - two_tails[noise][f"nats, {right[noise]}"]
    for noise in right
}
if (alpha, beta, scale) == (2.0, 2.0, 0.2):
    assert additive_spread < 1e-12 and max(link_gap.values()) < 1e-10
    assert min(p_values) > 1e-4 / 3  # correct draws fail once in ten thousand runs
    assert min(found.tv_low for found in closest.values()) > 0
    assert worst_rate < 0.01 and abs(slopes["normal, in c²"] - 1) < 0.15
    assert furthest < 0.02 and theorem_gap < 0.02
    assert (weights_table.iloc[1:].diff().iloc[1:] < 0).all(axis=None)
    assert abs(favourite["wins"] - 0.5).max() < 1e-10 and favourite_gap > 0.05
    assert max(by_domain.values()) < 0.05
    assert (ratio_table["1e+12"] < ratio_table["1e+05"] + 1e-14).all()
    assert regular < 1e-3 and scale_table.iloc[-1, 3:].min() > 0.05
    assert min(found.tv_low for found in best.values()) > 0.01 and spread_gain > 10
    assert left[least] > 0 and pair.tv < 1e-7 and mismatch["3 s − 1 (affine)"].tv < 1e-7
    assert abs(true_links["Gumbel noise, added"] * scale - 1) < 0.1
    assert abs(true_links["Weibull noise, a factor"] / beta - 1) < 0.1
    assert max(wrong_minus_right.values()) < 0 and max(ratio_gaps.values()) < 0.15
    stated = [best[16].tv, best[4096].tv, np.exp(fitted[4096][0]), np.exp(truth[4096][0])]
    assert np.allclose(stated, [0.10, 0.22, 0.05, 0.48], atol=0.006)
    assert [round(-loss, 2) for loss in wrong_minus_right.values()] == [0.37, 1.12]
    assert abs(every["normal"][1] - 0.017) < 5e-4 and furthest < 0.007
    assert abs(favourite["tail weight"].iloc[-1] - 0.433) < 5e-4
    assert all(0.018 < found.tv < 0.0311 for found in closest.values())
print("checked")


# %% tags=["nbval-ignore-output", "hide-input"]
def exactly(value, low=None):
    """A computed number as an interval: from its proven lower bound to itself."""
    return Interval(value, value if low is None else low, value, 1)


record = record_checks(
    "03_link_functions",
    {
        "additive_coordinate_spread": additive_spread,
        "gumbel_link_gap": link_gap["Gumbel"],
        "frechet_link_gap": link_gap["Fréchet"],
        "weibull_link_gap": link_gap["Weibull"],
        "link_distance_at_1e5": furthest,
        "rate_gap": worst_rate,
        "tail_weight_distance_at_1e5": theorem_gap,
        "favourite_tail_weight_gap": favourite_gap,
        "tail_ratio_gap": max(by_domain.values()),
        "tail_ratio_gap_translation": by_domain["Gumbel"],
        "tail_ratio_gap_scaling": by_domain["Fréchet"],
        "tail_ratio_gap_shortfall": by_domain["Weibull"],
        "shortfall_scale_distance": float(regular),
        "flat_shortfall_scale_distance": float(scale_table["(1 − s)²"].iloc[-1]),
        "best_softmax_distance": exactly(smallest_left.tv, smallest_left.tv_low),
        "mismatch_distance": exactly(mismatch[least].tv, left[least]),
        "shortfall_pool_distance": exactly(best[4096].tv, best[4096].tv_low),
        "spread_gain": exactly(spread_gain),
        "score_index_of_the_two_tails": two_tails["Gumbel noise, added"]["β̂ of the scores"],
        "linear_slope_under_gumbel_noise": true_links["Gumbel noise, added"],
        "endpoint_slope_under_weibull_noise": true_links["Weibull noise, a factor"],
        "wrong_link_loss_under_gumbel_noise": wrong_minus_right["Gumbel noise, added"],
        "wrong_link_loss_under_weibull_noise": wrong_minus_right["Weibull noise, a factor"],
        "density_ratio_gap": max(ratio_gaps.values()),
    },
    profile=profile,
    settings={"seed": seed, "alpha": alpha, "beta": beta, "scale": scale},
)
record.provenance
