# %% [markdown]
# # 02 · Extreme values: three limits for maxima

# %% [markdown] tags=["header"]
# **Paper:** section 2.2.1, Equation 2.5, Appendix A \
# **Time:** `quick` seconds (one core); `cpu` minutes \
# **Claims:** [13 of the paper's](../paper/claims.toml) \
# **Library:** [evaluation](../weince_lib/evaluation/__init__.py), [evt](../weince_lib/evt/__init__.py), [vision](../weince_lib/vision/__init__.py)
#
# [← 01 · InfoNCE is the likelihood of a choice](01_plackett_luce.ipynb) | [Contents](00_overview.ipynb) | [03 · Which link belongs to which tail? →](03_link_functions.ipynb)

# %% [markdown]
# A contrastive choice is won by the candidate with the largest utility. What the largest of many random
# numbers looks like depends on one thing only: how the upper tail of their law falls off. This notebook
# shows the three possible limits, how fast they are reached, why there are no others, and what remains of
# this when the candidates are **not** identically distributed, as negatives with different scores are.
#
# No extreme-value theory is assumed. Nearly every curve below is exact, so that a simulation has something to
# be judged against.

# %% tags=["setup"]
# In Colab this fetches the library; torch, numpy and all else that is there keep their versions.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    import pathlib
    import runpy
    import subprocess

    repository, ref = "", ""  # written by `weince badges`
    if not repository:
        raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")
    if not pathlib.Path("weince").exists():
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1"]
        subprocess.run([*clone, f"--branch={ref}", repository, "weince"], check=True)
    runpy.run_path("weince/weince_lib/hosted.py", run_name="__main__")

# %% tags=["parameters"]
profile = "quick"
seed = 2
seeds = [7, 21, 63, 84]
temperature = 0.5
dimension = 8
blocks = 3
retrain = False

# %%
import math

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy import stats
from scipy.spatial.distance import cdist

from weince_lib import plots
from weince_lib.evaluation import Interval, t_interval
from weince_lib.evt import (
    Family,
    RankedCandidates,
    ScoredUtilities,
    canonical_tail,
    copies_quantile,
    families,
    fit_known_endpoint,
    gev_cdf,
    gev_quantile,
    intrinsic_dimension,
    match_types,
    max_stability_gap,
    max_stable_constants,
    nearest_tail_index,
    shape_above,
    shape_of_type,
    sphere_shape,
)
from weince_lib.evt import non_identical as mixed
from weince_lib.experiments import (
    by_profile,
    frozen_model,
    provenance,
    ready_encoder,
    record_checks,
    train_anew,
    training_images,
    vision_config,
)
from weince_lib.vision import extract_features

if retrain:
    train_anew()
draw = np.random.default_rng(seed)
checks = {}


def worst_deviation(deviation, error):
    """The largest deviation with an interval that holds for all of them at once (Bonferroni)."""
    z = stats.norm.isf(0.025 / deviation.size)
    at = np.argmax(np.abs(deviation) + z * error)
    low, high = (deviation.flat[at] + sign * z * error.flat[at] for sign in (-1, 1))
    return Interval(float(deviation.flat[at]), float(low), float(high), deviation.size)


# %% [markdown]
# ## 1 · Three limits
#
# Draw $X_1, \dots, X_n$ independently with distribution function $F$ and survival function $\bar F = 1 - F$. Their
# maximum $M_n$ grows with $n$, so look at it relative to a level $b_n$, in units $a_n$. Because
# $P(M_n \le u) = F(u)^n$, its law needs no simulation:
#
# $$P\!\left(\frac{M_n - b_n}{a_n} \le x\right) = \left(1 - \bar F(b_n + a_n x)\right)^n .$$
#
# If this converges to anything that is not a single point, the theorem of Fisher, Tippett and Gnedenko says that,
# for suitable $a_n$ and $b_n$, the limit is one of
#
# $$G(x) = e^{-\psi(x)}, \qquad \psi(x) = (1 + \xi x)_+^{-1/\xi} \quad (e^{-x} \text{ at } \xi = 0).$$
#
# The sign of the shape $\xi$ gives three geometries: **Fréchet** ($\xi > 0$, power-law tails), **Gumbel**
# ($\xi = 0$, tails lighter than every power, such as exponential or normal ones) and **Weibull** ($\xi < 0$, a finite endpoint). Software
# differs in the sign: `scipy.stats.genextreme` has $c = -\xi$.
#
# One choice of constants works for all three: the level that one in $n$ exceeds, and the mean excess over it
# that the hazard rate implies,
#
# $$\bar F(b_n) = \frac1n, \qquad a_n = \frac{\bar F(b_n)}{f(b_n)}.$$
#
# Four laws of each domain:

# %%
laws = families.standard_families()
sizes = 10.0 ** np.arange(1, 13)
distance = {law.name: np.array([law.distance(n) for n in sizes]) for law in laws}
at = {f"n = 10^{k}": [distance[law.name][k - 1] for law in laws] for k in (2, 4, 6)}
index = pd.MultiIndex.from_tuples([(law.geometry, law.name) for law in laws])
pd.DataFrame(at, index=index).map("{:.1e}".format).assign(ξ=[f"{law.shape:.2f}" for law in laws])

# %% [markdown]
# The columns are the largest difference between the exact distribution function of the normalised maximum
# and its limit. All fall. Now the same for one law of each kind, with maxima that were really drawn.

# %%
repetitions = by_profile(profile, quick=20_000, cpu=200_000)
shown = [families.student_t(3), families.normal(), families.sphere_cosine(6)]
maxima = {law.name: law.sample_maxima(30, repetitions, draw) for law in shown}
p_values = [
    stats.kstest(maxima[law.name], lambda x, law=law: law.maximum_cdf(x, 30)).pvalue
    for law in shown
]
figure = plots.trichotomy(shown, (1_000_000, 1000, 30, 5)[::-1], maxima, simulated_size=30)
if profile == "quick" and seed == 2:
    plots.save_figure(figure, "trichotomy")
plt.show()

# %% [markdown]
# *Top: densities of normalised maxima; the lines are exact, the dots were drawn (with two standard errors), dashed is the
# limit. Bottom: how the tail beyond the level $b_n$ falls, relative to its value there: section 3. A normal law
# is still off its limit at a million.*

# %%
checks["distance_to_limit_worst"] = max(values[5] for values in distance.values())
assert min(p_values) > 1e-4  # drawn maxima against the exact law: three tests, false alarm 0.0003
assert checks["distance_to_limit_worst"] < 0.02
assert all((np.diff(values) < 0).all() for values in distance.values())

# %% [markdown]
# "Where they converge" is part of the theorem. With a **lattice**, such as the number $X$ of heads before the first
# tail, nothing converges: one value keeps a large share of the probability for every $n$, which no
# continuous law can follow.

# %%
k = np.arange(200.0)
atoms = []
for n in (10**3, 10**6, 10**9):
    below = np.exp(n * np.log1p(-(0.5 ** (k + 1))))  # P(M_n <= k)
    atoms.append(np.diff(below, prepend=0.0).max())
print("likeliest value of the maximum has probability", np.round(atoms, 3))
assert min(atoms) > 0.2

# %% [markdown]
# ## 2 · How fast
#
# Two errors add up. Replacing $(1 - r/n)^n$ by $e^{-r}$ costs at most
#
# $$\frac1n \max_r \frac{r^2 e^{-r}}{2} = \frac{2}{e^2 n} \approx \frac{0.27}{n}$$
#
# to leading order, for every law. The rest is the tail's own distance from its limit. An exponential
# tail has none. For the normal law the hazard rate still grows, by about 1 for each unit of $x$ (Hall, 1979), and that
# costs
#
# $$\frac{1}{b_n^2} \max_x \frac{x^2 e^{-x} G(x)}{2} \approx \frac{0.24}{b_n^2} \approx \frac{0.12}{\log n}.$$
#
# Both constants can be checked.

# %%
x = np.linspace(-3, 15, 200_001)
normal_constant = np.max(x**2 * np.exp(-x - np.exp(-x))) / 2
normal, exponential = families.normal(), families.exponential()
rows = {
    f"n = 10^{k}": {
        "exponential: n × distance": 10.0**k * exponential.distance(10.0**k),
        "normal: b_n² × distance": normal.constants(10.0**k)[1] ** 2 * normal.distance(10.0**k),
    }
    for k in (3, 6, 9, 100, 300)
}
print(f"limits: {2 / math.e**2:.4f} and {normal_constant:.4f}")
pd.DataFrame(rows).T.iloc[:, ::-1].round(4)[["normal: b_n² × distance"]].join(
    pd.DataFrame(rows).T.iloc[:3, :1].round(4)
)

# %%
slopes = {
    law.name: np.log(distance[law.name][9] / distance[law.name][11]) / np.log(100) for law in laws
}
assert all(abs(slopes[law.name] - law.rate) < 0.005 for law in laws if law.rate > 0)
assert abs(1e12 * exponential.distance(1e12) - 2 / math.e**2) < 1e-3
assert abs(normal.constants(1e300)[1] ** 2 * normal.distance(1e300) - normal_constant) < 1e-3
plots.convergence_rates(laws, sizes, distance)
plt.show()

# %% [markdown]
# *Exact distances; lines of equal rate lie on each other. Straight lines are powers of $n$: $1/n$ for most laws, $n^{-2/3}$ for Student's t with three degrees
# of freedom, $n^{-2/5}$ for cosines on the sphere in six dimensions. The normal law gains almost nothing from $10^6$
# to $10^{12}$ candidates.*
#
# A batch of 512 is therefore "large" for some utilities and not for others.
#
# ## 3 · The tail ratio says the same
#
# Theorem 2.2 turns the statement about maxima into one about the tail: maxima converge to shape $\xi$ **exactly when**
#
# $$\frac{\bar F(b_n + a_n x)}{\bar F(b_n)} \longrightarrow \psi(x) = (1 + \xi x)_+^{-1/\xi}. \tag{2.5}$$
#
# With $n \bar F(b_n) = 1$ the reason fits on a line. Call the ratio $r_n(x)$; then
# $P(M_n \le b_n + a_n x) = (1 - r_n(x)/n)^n$, which is $e^{-r_n(x)}$ up to $0.27/n$, whatever the law. So one
# side converges if and only if the other does. That includes laws where neither does: a survival
# function $(1 + \tfrac13 \sin \log x)/x$ swings about a Pareto tail forever.

# %%
oscillating = families.oscillating()
psi = np.geomspace(20.0, 1e-6, 4001)
gap_times_n = {}
for law in [*laws, oscillating]:
    x = gev_quantile(np.exp(-psi), law.shape)
    for n in (100, 10_000, 1_000_000):
        gap = law.maximum_cdf(x, n) - np.exp(-law.tail_ratio(x, n))
        gap_times_n[law.name, n] = n * np.abs(gap).max()
checks["equivalence_gap_times_n"] = max(gap_times_n.values())
print(f"n × largest gap, 13 laws, three sizes: {checks['equivalence_gap_times_n']:.3f}")
assert checks["equivalence_gap_times_n"] < 0.3

# %% [markdown]
# The shape can be read from a law without any constants. Where $-\log p$ is $1$, $\tfrac14$ and $\tfrac1{16}$, let the quantiles be
# $q_0 < q_1 < q_2$. Location and scale cancel in
#
# $$\xi = \log_4 \frac{q_2 - q_1}{q_1 - q_0}.$$

# %%
read_at = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]
readings = pd.DataFrame(
    {
        law.name: [
            shape_of_type(lambda p, n=n, law=law: law.maximum_quantile(p, n)) for n in read_at
        ]
        for law in (*shown, oscillating)
    },
    index=pd.Index([f"10^{math.log10(n):.0f}" for n in read_at], name="n"),
)
assert np.ptp(readings[oscillating.name]) > 0.3  # neither side has a limit
readings.round(3)

# %% [markdown]
# Three laws settle at their own shape (1/3, 0 and −2/5); the swinging tail never does.
#
# What of the law itself survives? Only $\xi$. Location and scale go into $b_n$ and $a_n$: shrink and shift $X$ to
# $cX + d$ and the constants become $c\,a_n$ and $c\,b_n + d$, while the ratio stays what it was. The largest distance of the
# ratio from $\psi$ over $0 \le x \le 5$, at $n = 10^6$:

# %%
x = np.linspace(0, 5, 501)
ratio_gap = {
    law.name: np.abs(law.tail_ratio(x, 1e6) - canonical_tail(x, law.shape)).max() for law in laws
}
affine = Family("2 t + 7", 1 / 3, stats.t(3, loc=7, scale=2))
(a, b), (a_moved, b_moved) = shown[0].constants(1e6), affine.constants(1e6)
constants_gap = max(abs(a_moved / (2 * a) - 1), abs(b_moved / (2 * b + 7) - 1))
affine_gap = np.abs(affine.tail_ratio(x, 1e6) - shown[0].tail_ratio(x, 1e6)).max()
checks["tail_ratio_worst"] = max(ratio_gap.values())
print(f"worst law: {max(ratio_gap, key=ratio_gap.get)}, {checks['tail_ratio_worst']:.3f}")
assert max(constants_gap, affine_gap) < 1e-6
assert checks["tail_ratio_worst"] < 0.02

# %% [markdown]
# ## 4 · Why no fourth limit: max-stability
#
# If $M_n$ has a limit $G$, so has $M_{mn}$, and $M_{mn}$ is the maximum of $m$ independent copies of $M_n$. So the maximum of $m$
# draws from $G$ must again have the law $G$, up to location and scale: $G$ is **max-stable**,
#
# $$G\!\left(\alpha(m)\,x + \beta(m)\right)^m = G(x), \qquad \alpha(t) = t^{\xi}, \quad \beta(t) = \frac{t^{\xi} - 1}{\xi}\ (\log t \text{ at } \xi = 0).$$
#
# (Section A.4.2 writes the inverse map, $G(x)^m = G(\alpha_m x + \beta_m)$; its constants are those of $t = 1/m$, so that
# $\alpha_m = m^{-\xi}$ there.) To see that nothing is put in by hand, find $\alpha$ and $\beta$ by matching two quantiles of the
# maximum of $t$ copies with two of a single draw, for any law, and look at the rest of the law.

# %%
shapes = (-1.0, -0.4, 0.0, 0.3, 1.0)
levels = np.linspace(0.001, 0.999, 199)
candidates = {f"GEV, ξ = {xi:g}": stats.genextreme(-xi) for xi in shapes} | {
    "normal": stats.norm(),
    "exponential": stats.expon(),
    "logistic": stats.logistic(),
    "uniform": stats.uniform(),
    "Student t, ν = 3": stats.t(3),
    "gamma, 3": stats.gamma(3),
}
stability = pd.DataFrame(
    {
        f"maximum of {m}": {
            name: max_stability_gap(law.ppf, m, levels) for name, law in candidates.items()
        }
        for m in (2, 10)
    }
)
stability.map(lambda gap: "0" if gap < 1e-9 else f"{gap:.2f}")

# %% [markdown]
# The table gives the largest mismatch in units of the interquartile range: none for the GEV laws, plain for all others. The proof
# (section A.9) goes the other way, from max-stability to the formula. Taking the maximum of $t$ copies of
# $s$ copies in one step or in two gives
#
# $$\alpha(st) = \alpha(s)\,\alpha(t) \tag{A.3}$$
# $$\beta(st) = \alpha(s)\,\beta(t) + \beta(s) \tag{A.4}$$
#
# and the only monotone solutions are the ones above. We check both on constants found by matching, for all $s, t$ in a grid.

# %%
scale_gap = location_gap = formula_gap = 0.0
for xi in shapes:
    quantile = stats.genextreme(-xi).ppf
    found = {t: match_types(quantile, copies_quantile(quantile, t)) for t in range(1, 37)}
    for s in range(2, 7):
        for t in range(2, 7):
            (a_s, b_s), (a_t, b_t), (a_st, b_st) = found[s], found[t], found[s * t]
            scale_gap = max(scale_gap, abs(a_st / (a_s * a_t) - 1))
            location_gap = max(location_gap, abs(b_st - (a_s * b_t + b_s)) / abs(b_st))
    for t, pair in found.items():
        formula_gap = max(formula_gap, *np.abs(np.subtract(pair, max_stable_constants(t, xi))) / t)
checks |= {"scale_equation_gap": scale_gap, "location_equation_gap": location_gap}
assert max(scale_gap, location_gap, formula_gap) < 1e-9

# %% [markdown]
# The last step: $\psi = -\log G$ obeys $\psi(\alpha(t) x + \beta(t)) = \psi(x)/t$. At $x = 0$ this reads
#
# $$\psi(\beta(t)) = \frac{\psi(0)}{t},$$
#
# so the locations alone give the whole of $\psi$: it is $1/t$ at $(t^\xi - 1)/\xi$, which is $(1 + \xi x)^{-1/\xi}$. Rebuild each law that way
# from its own matched constants, and compare with what it is.

# %%
copies = np.r_[1 / np.arange(2.0, 11.0), np.arange(1.0, 51.0)]


def rebuilt_gap(law):
    """Largest difference between a law at beta(t) and what max-stability makes of it there."""
    centre = law.ppf(math.exp(-1.0))  # the origin: psi is 1 here
    beta = [
        match_types(
            lambda p: law.ppf(p) - centre, lambda p, t=t: copies_quantile(law.ppf, t)(p) - centre
        )[1]
        for t in copies
    ]
    return np.abs(law.cdf(centre + np.array(beta)) - np.exp(-1 / copies)).max()


rebuilt = {name: rebuilt_gap(law) for name, law in candidates.items()}
others = [gap for name, gap in rebuilt.items() if not name.startswith("GEV")]
checks["rebuilt_from_constants_gap"] = max(
    gap for name, gap in rebuilt.items() if name.startswith("GEV")
)
print(f"GEV laws: below 1e-9; others: from {min(others):.3f} to {max(others):.3f}")
assert checks["rebuilt_from_constants_gap"] < 1e-9
assert min(others) > 0.002 and stability.iloc[len(shapes) :].to_numpy().min() > 0.01

# %% [markdown]
# Conversely every shape occurs (section A.8): start from $F = G$ itself, and with
#
# $$a_n = n^\xi, \qquad b_n = \frac{n^\xi - 1}{\xi} \quad (1 \text{ and } \log n \text{ at } \xi = 0)$$
#
# the normalised maximum has **exactly** the law $F$, for every $n$.

# %%
x = np.linspace(-3, 8, 401)
self_gap = 0.0
for xi in shapes:
    for n in (2, 100, 10_000):
        a_n, b_n = max_stable_constants(n, xi)
        self_gap = max(self_gap, np.abs(gev_cdf(a_n * x + b_n, xi) ** n - gev_cdf(x, xi)).max())
checks["classical_constants_gap"] = self_gap
assert self_gap < 1e-11

# %% [markdown]
# ## 5 · Convergence of types
#
# Could another choice of constants give another limit? Lemma A.3 says no: if $(M_n - b_n)/a_n \to G$ and
# $(M_n - b'_n)/a'_n \to H$, both non-degenerate, then
#
# $$\frac{a'_n}{a_n} \to A, \qquad \frac{b'_n - b_n}{a_n} \to B, \qquad H(x) = G(Ax + B).$$
#
# The proof of the theorem uses it for $M_{mn}$, seen with the constants of $n$ and then with its own ($a'_n = a_{mn}$, $b'_n = b_{mn}$): the
# ratio has to tend to $A = m^\xi$ and the difference to $B = (m^\xi - 1)/\xi$. How far are the constants of twelve laws from
# that, at $m = 2$? Three of them, and the worst decides the claim:

# %%
types_gap = {}
for law in laws:
    limit = max_stable_constants(2, law.shape)
    for n in (1e3, 1e6, 1e9, 1e12):
        (a, b), (a_double, b_double) = law.constants(n), law.constants(2 * n)
        found = (a_double / a, (b_double - b) / a)
        types_gap[law.name, n] = np.abs(np.subtract(found, limit)).max()
table = pd.Series(types_gap).unstack()[[1e3, 1e6, 1e9, 1e12]]
assert (np.diff(table, axis=1) < 1e-9).all()
checks["types_constants_worst"] = table[1e12].max()
assert checks["types_constants_worst"] < 0.02
table.loc[[law.name for law in shown]].round(4).rename(columns="{:.0e}".format)

# %% [markdown]
# Again the normal law is the slow one. Its textbook constants are another example of two normalisations of one sequence:
# $a'_n = (2\log n)^{-1/2}$ and
# $b'_n = (2\log n)^{1/2} - \tfrac12 (2 \log n)^{-1/2}(\log\log n + \log 4\pi)$. They have the same limit, with $A = 1$ and $B = 0$.

# %%
for n in (1e3, 1e6, 1e12, 1e100, 1e300):
    root = math.sqrt(2 * math.log(n))
    textbook = root - (math.log(math.log(n)) + math.log(4 * math.pi)) / (2 * root)
    a, b = normal.constants(n)
    A, B = 1 / root / a, (textbook - b) / a
    print(f"n = 10^{math.log10(n):<3.0f}  A = {A:.4f}  B = {B:+.4f}")
assert abs(A - 1) < 0.01 and abs(B) < 0.01

# %% [markdown]
# ## 6 · Candidates that are not alike
#
# In a contrastive batch candidate $i$ has its own score $s_i$, and its utility $X_i$ its own law. The three rows of the paper's
# Table 1, with noise from each domain:
#
# $$X_i = \frac{s_i}{\tau} + \varepsilon_i, \qquad X_i = e^{s_i/\tau} Z_i, \qquad 1 - X_i = (1 - s_i)\, W_i.$$
#
# The scores are cosines of directions drawn at random on the sphere; the noise is logistic, Student t and Beta, none of
# it max-stable, so that the limit has to do some work. Everything follows from the exceedance probabilities at the level
# $u_N(x) = b_N + a_N x$,
#
# $$p_i = \bar F_i(u_N(x)), \qquad P(M_N \le u_N(x)) = \prod_{i=1}^N (1 - p_i), \qquad \bar F_\mathrm{avg} = \frac1N \sum_i \bar F_i,$$
#
# with $a_N, b_N$ from the average survival function as before: $\bar F_\mathrm{avg}(b_N) = 1/N$.


# %%
def utilities(scores):
    """One model for each geometry, all of the same scores."""
    zero = np.zeros_like(scores)
    return {
        "Gumbel": ScoredUtilities(families.logistic(), scores / temperature, zero + 1),
        "Fréchet": ScoredUtilities(families.student_t(3), zero, np.exp(scores / temperature)),
        "Weibull": ScoredUtilities(families.beta(2, 1.5), zero, 1 - scores),
    }


# Their own generator: the same scores in every profile.
scores = 1 + families.sphere_cosine(dimension).sample(30_000, np.random.default_rng(seed))
models = utilities(scores)
x = np.linspace(-1, 4, 51)

# %% [markdown]
# Theorem A.2 asks for two conditions, and both can be computed.
#
# - **(I)** No candidate decides alone: $\max_i p_i \to 0$.
# - **(H)** Candidates are homogeneous: a block of $n$ drawn at random from $mn$ behaves like the first $n$. In numbers: the
#   expected exceedances $\sum p_i$ in the first block and in a random one, $S/m$ with $S = \sum_i p_i$, come together.
#
# If then the normalised maximum converges, the limit is a GEV law and the average tail ratio
# $\bar F_\mathrm{avg}(u_N(x))/\bar F_\mathrm{avg}(b_N)$ converges to $\psi$. Negatives drawn at random satisfy (H) because their order
# carries no information: the first $n$ **are** a random block.

# %%
rows = {}
for n in (300, 3000, 30_000):
    for name, model in utilities(scores[:n]).items():
        a, b = model.constants()
        p, psi = model.exceedance(b + a * x), canonical_tail(x, model.noise.shape)
        rows[name, n] = {
            "(I): max p": mixed.infinitesimality(p[10]),  # at x = 0
            "(H): gap": mixed.homogeneity_gap(p[10], blocks),
            "law − G": np.abs(mixed.maximum_cdf(p) - np.exp(-psi)).max(),
            "ratio − ψ": np.abs(p.sum(axis=1) - psi)[10:].max(),
        }
conditions = pd.DataFrame(rows).T.astype(float)
at_end = conditions.xs(30_000, level=1)
checks["heterogeneous_law_worst"] = at_end[["law − G", "ratio − ψ"]].to_numpy().max()
assert checks["heterogeneous_law_worst"] < 0.01 and at_end["(I): max p"].max() < 0.05
conditions.sort_index(level=0, sort_remaining=False).round(4)

# %% [markdown]
# All columns go to 0 as candidates are added, the second with the luck of the draw, and all of them slowly for the
# shortfall model: section 9 says why. Those
# numbers are exact for these scores. Now draw the utilities, and compare the share of maxima below $u_N(x)$ with the limit.

# %%
repetitions = by_profile(profile, quick=8000, cpu=100_000)
points = np.array([-0.8, -0.4, 0.0, 0.4, 0.8, 1.2])
deviation, error, exact_z = [], [], []
for model in utilities(scores[:1200]).values():
    a, b = model.constants()
    top = np.concatenate([model.sample_maxima(1000, draw) for _ in range(repetitions // 1000)])
    share = ((top - b) / a <= points[:, None]).mean(axis=1)
    exact = mixed.maximum_cdf(model.exceedance(b + a * points))
    error.append(np.sqrt(exact * (1 - exact) / repetitions))
    deviation.append(share - gev_cdf(points, model.noise.shape))
    exact_z.append((share - exact) / error[-1])
checks["random_utilities_minus_limit"] = worst_deviation(np.array(deviation), np.array(error))
print(f"drawn minus limit, worst of 18: {checks['random_utilities_minus_limit'].mean:+.3f}")
assert np.abs(exact_z).max() < 4.5  # 18 comparisons with the exact product; false alarm 1e-4
interval = checks["random_utilities_minus_limit"]
assert interval.low > -0.04 and interval.high < 0.04

# %% [markdown]
# ## 7 · The proof, one step at a time
#
# With identical laws $F^{mn} = (F^n)^m$ gives max-stability at once. Here there is no $F$, so the paper shuffles $mn$ candidates and cuts
# them into $m$ blocks $P_1, \dots, P_m$ (Lemma A.5). Fix $x$ and the level $u = u_{mn}(x)$.
#
# **Step 1, tail sums.** From $0 \le e^{-p} - (1 - p) \le p^2/2$,
#
# $$0 \;\le\; e^{-S} - \prod_i (1 - p_i) \;\le\; \tfrac12 \sum_i p_i^2 \;\le\; \tfrac12\, p_{\max} S .$$
#
# Under (I) the right side vanishes, so $S \to -\log G(x)$. The same line proves Lemma A.6: as
# $S = mn\, \bar F_\mathrm{avg}(u)$, the law of the maximum converges exactly when the average tail ratio does.

# %%
share_of_bound = square_share = 0.0
for n in (30, 300, 3000, 30_000):
    for model in (*utilities(scores[:n]).values(), RankedCandidates(n)):  # the last: section 8
        a, b = model.constants()
        p = model.exceedance(b + a * x)
        p = p[p.sum(axis=1) > 0.01]  # nearer the endpoint the gap drowns in rounding
        gap, bound = np.exp(-p.sum(axis=1)) - mixed.maximum_cdf(p), mixed.poisson_gap_bound(p)
        share_of_bound = max(share_of_bound, np.max(gap / bound))
        largest_times_sum = p.max(axis=1) * p.sum(axis=1)
        square_share = max(square_share, np.max(2 * bound / largest_times_sum))
        assert (gap > -1e-12).all()
checks["poisson_gap_over_bound"] = share_of_bound
print(f"gap / (Σp²/2) at most {share_of_bound:.2f}; Σp² / (p_max S) at most {square_share:.2f}")
assert share_of_bound <= 1 and square_share <= 1

# %% [markdown]
# **Step 2, block sums.** Block $k$ has the tail sum $S_k = \sum_{i \in P_k} p_{\pi(i)}$, a sample without replacement. Its mean is $S/m$ and its
# variance
#
# $$\operatorname{Var} S_k = n\left(1 - \frac1m\right) \frac{\sum_i (p_i - \bar p)^2}{mn - 1} \;\le\; \frac{m-1}{m^2}\,\frac{mn}{mn-1} \sum_i p_i^2,$$
#
# which vanishes by step 1. So every random block gets its share $S/m$. Shuffle and see.
#
# **Step 3, block maxima.** The maximum of a block then stays below $u_{mn}(x)$ with probability $e^{-S/m} \to G(x)^{1/m}$.

# %%
shuffles = by_profile(profile, quick=400, cpu=4000)
block_sizes = np.array([100, 1000, 10_000])
spreads, histogram, spread_z, law_gap = {}, {}, [], 0.0
for name in models:
    exact, seen, error = [], [], []
    for n in block_sizes:
        model = utilities(scores[: blocks * n])[name]
        p = model.exceedance(model.constants()[1])  # the level at x = 0
        sums, below = mixed.permutation_blocks(p, blocks, shuffles, draw)
        first = sums[:, 0]
        exact.append(float(mixed.block_sum_spread(p, blocks)))
        seen.append(first.std())
        error.append(exact[-1] * math.sqrt((stats.kurtosis(first) + 2) / 4 / shuffles))
        if name == "Fréchet":
            histogram[int(n)] = first
    law_gap = max(law_gap, abs(below[:, 0].mean() - math.exp(-p.sum() / blocks)))
    spreads[name] = (np.array(exact), plots.Points(block_sizes, np.array(seen), np.array(error)))
    spread_z.extend((np.array(seen) - exact) / error)
relative = max(exact[-1] for exact, _ in spreads.values()) * blocks  # S = 1 at x = 0
checks["block_sum_relative_spread"] = relative
print(f"largest spread of a block sum at n = 10,000: {100 * relative:.1f} % of its mean")
assert np.abs(spread_z).max() < 4.5 and relative < 0.05 and law_gap < 0.005

# %% [markdown]
# **Step 4, types.** Look at the same block maximum with the constants of a sample of its own size. By (H) its law tends to $G$;
# by step 3 it tends to $G^{1/m}$ at the other constants. Convergence of types ties the two together:
#
# $$G(x)^{1/m} = G(\alpha x + \beta), \qquad \text{so } G \text{ is max-stable.}$$
#
# What has to be seen is that a random block really has the limit of the first $n$.

# %%
block_laws, deviation, error = {}, [], []
n = int(block_sizes[-1])
for name, model in utilities(scores[: blocks * n]).items():
    a, b = model.first(n).constants()
    below = np.array(
        [
            mixed.permutation_blocks(p, blocks, shuffles // 4, draw)[1][:, 0]
            for p in model.exceedance(b + a * points)
        ]
    )
    deviation.append(below.mean(axis=1) - gev_cdf(points, model.noise.shape))
    error.append(below.std(axis=1, ddof=1) / math.sqrt(shuffles // 4))
    block_laws[name] = plots.Points(points, deviation[-1], 2 * error[-1])
checks["block_law_minus_limit"] = worst_deviation(np.array(deviation), np.array(error))
interval = checks["block_law_minus_limit"]
assert interval.low > -0.02 and interval.high < 0.02
plots.block_sums(histogram, 1 / blocks, spreads, block_laws)
plt.show()

# %% [markdown]
# *Left: tail sums of one random block of the Fréchet model, for growing blocks. Middle: their spread falls to 0; lines are the formula. Right: the law
# of the block's maximum at the constants of the first $n$ candidates, less the limit $G$: at most a hundredth.*
#
# ## 8 · When a condition fails
#
# **Without (I): a rival that keeps up.** All candidates are exponential but one, whose utility is $\log N + 1 + \tfrac13 \times$ a standard normal: a
# near-duplicate that is always in the race. Its $p_i$ never vanishes, and the limit is a product of two laws,
#
# $$G(x) = e^{-e^{-x}}\, \Phi(3(x - 1)).$$
#
# **Without (H): candidates that get easier.** Let candidate $i$ exceed $y \ge 0$ with probability $1/(i + e^y)$ (and be 0 otherwise). Each later negative is a little less of
# a threat. The product telescopes, for every $n$:
#
# $$P(M_n - \log n \le x) = \prod_{i=1}^n \frac{i - 1 + n e^x}{i + n e^x} = \frac{1}{1 + e^{-x}}.$$
#
# So the limit is the **logistic** law, which is no extreme value law, although (I) holds: no candidate exceeds with more than $1/(1 + n e^x)$.
# A random block of $n$ from $mn$ has the limit $(1 + m e^{-x})^{-1/m}$ instead.


# %%
def rival_exceedance(u, size):
    """p_i of size - 1 exponential candidates and the rival, the last one."""
    p = np.repeat(np.exp(-u)[:, None], size, axis=1)
    p[:, -1] = stats.norm.sf(3 * (u - math.log(size) - 1))
    return p


rows, at_zero = {}, np.array([0.0])
for size in (300, 3000, 30_000):
    for name, p in {
        "random scores": models["Gumbel"]
        .first(size)
        .exceedance(models["Gumbel"].first(size).constants()[1]),
        "a rival: no (I)": rival_exceedance(math.log(size) + at_zero, size)[0],
        "ever easier: no (H)": RankedCandidates(size).exceedance(math.log(size)),
    }.items():
        rows[name, size] = {
            "(I): max p": mixed.infinitesimality(p),
            "spread of a block sum": mixed.block_sum_spread(p, blocks),
            "(H): gap": mixed.homogeneity_gap(p, blocks),
        }
pd.DataFrame(rows).T.astype(float).sort_index(level=0, sort_remaining=False).round(4)

# %% [markdown]
# Each example keeps its condition broken. (The rival disturbs the other two columns as well: a block either holds it or does
# not.) The simulated maxima follow the stated limits, and neither limit is a GEV law: the shape read at different levels
# is not constant.

# %%
size, repetitions = 1000, by_profile(profile, quick=4000, cpu=100_000)
grid, at = np.linspace(-4, 6, 301), np.linspace(-2, 4, 13)
tops = {"rival": [], "easier": []}
for _ in range(repetitions // 1000):
    rival = math.log(size) + 1 + draw.standard_normal(1000) / 3
    tops["rival"].append(np.maximum(draw.exponential(size=(1000, size - 1)).max(axis=1), rival))
    tops["easier"].append(RankedCandidates(size).sample_maxima(1000, draw))
exact = {
    "rival": mixed.maximum_cdf(rival_exceedance(math.log(size) + at, size)),
    "easier": RankedCandidates.limit_cdf(at),
}
simulated = {}
for name, parts in tops.items():
    share = (np.concatenate(parts) - math.log(size) <= at[:, None]).mean(axis=1)
    error = np.sqrt(exact[name] * (1 - exact[name]) / repetitions)
    inner = (exact[name] > 0.01) & (exact[name] < 0.99)
    assert np.abs((share - exact[name])[inner] / error[inner]).max() < 4.5  # false alarm 2e-4
    simulated[name] = plots.Points(at, share, 2 * error)

# %%
level = np.geomspace(8, 0.02, 25)


def read(cdf):
    """The shape of a law given by its distribution function, at each level psi."""
    fine = np.linspace(-40, 40, 400_001)
    known = cdf(fine)

    def quantile(p):
        return np.interp(p, known, fine)

    return np.array([shape_of_type(quantile, top=c, ratio=2.0) for c in level])


limits = {
    "a rival": lambda x: gev_cdf(x, 0.0) * stats.norm.cdf(3 * (x - 1)),
    "ever easier (logistic)": RankedCandidates.limit_cdf,
    "Gumbel": lambda x: gev_cdf(x, 0.0),
}
readings = {name: plots.Points(level, read(cdf), 0 * level) for name, cdf in limits.items()}
panels = {
    "(I) fails: a rival": (
        {"limit": limits["a rival"](grid), "Gumbel": gev_cdf(grid, 0.0)},
        simulated["rival"],
    ),
    "(H) fails: ever easier": (
        {
            "limit: logistic": RankedCandidates.limit_cdf(grid),
            "Gumbel": gev_cdf(grid, 0.0),
            "random block": mixed.block_limit_cdf(grid, blocks),
        },
        simulated["easier"],
    ),
}
wander = {name: float(np.ptp(reading.y)) for name, reading in readings.items()}
print({name: round(value, 2) for name, value in wander.items()})
assert wander["Gumbel"] < 1e-3 and min(wander["a rival"], wander["ever easier (logistic)"]) > 0.5
plots.counter_examples(grid, panels, readings)
plt.show()

# %% [markdown]
# *Left and middle: distribution functions of $M_N - \log N$ for $N = 1000$, drawn (dots, two standard errors) and exact. Right: the
# shape read from three quantiles (section 3), from low levels on the left to the tail on the right.*
#
# **A note on the wording of (H).** The paper asks that a random block's normalised maximum have *a* non-degenerate limit $H_m$. In our example it has one, for
# every $m$, and (I) holds too; yet the limit is logistic. So the existence of $H_m$ alone does not suffice: step 4
# needs $H_m$ to be of the type of $G$, as it is for identical laws, and as the paper's corollary (A.8) says there. We read (H) that way, and with that
# reading the theorem stands. For negatives drawn at random the distinction makes no difference.

# %%
block_limit_gap = 0.0
fine = RankedCandidates(blocks * 10_000)
for value in points:
    p = fine.exceedance(math.log(10_000) + value)
    below = mixed.permutation_blocks(p, blocks, 50, draw)[1][:, 0]
    block_limit_gap = max(block_limit_gap, abs(below.mean() - mixed.block_limit_cdf(value, blocks)))
checks["weak_h_block_limit_gap"] = float(block_limit_gap)
checks["weak_h_shape_wander"] = wander["ever easier (logistic)"]
assert block_limit_gap < 0.01

# %% [markdown]
# ## 9 · When does (I) hold for the shortfall link?
#
# In the Weibull row candidate $j$ wins with probability $p_j \propto (1 - s_j)^{-\beta}$. If the shortfalls $1 - s_j$ themselves have the tail
# index $\beta_s$, the weights have a power tail with exponent $\beta_s/\beta$. For $\beta < \beta_s$ their sum obeys the law of large numbers
# and (I) holds. For $\beta > \beta_s$ it does not: a few nearest candidates carry everything, and the chance that two independent winners coincide
# tends to
#
# $$E \sum_j p_j^2 \;\to\; 1 - \frac{\beta_s}{\beta} \qquad (\beta > \beta_s),$$
#
# a known fact about normalised jumps of a stable process (Pitman and Yor, 1997). On the sphere $\beta_s = (d - 1)/2$.

# %%
repetitions = by_profile(profile, quick=400, cpu=1600)
beta_s = -1 / sphere_shape(dimension)
multiples = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
coincide = {}
for n in (100, 1000, 10_000):
    shortfall = -families.sphere_cosine(dimension).sample((repetitions, n), draw)
    log_q = np.log(shortfall / shortfall.min(axis=1, keepdims=True))
    for multiple in multiples:
        weight = np.exp(-multiple * beta_s * log_q)
        weight /= weight.sum(axis=1, keepdims=True)
        coincide[multiple, n] = np.square(weight).sum(axis=1)
table = pd.DataFrame({key: [value.mean()] for key, value in coincide.items()}).T[0].unstack()
table["limit"] = [max(0.0, 1 - 1 / multiple) for multiple in multiples]
table.rename_axis(index="β / βₛ", columns="candidates").round(2)

# %%
for multiple in (2.0, 3.0):
    values = coincide[multiple, 10_000]
    slack = 0.01  # what 10,000 candidates still lack
    assert (
        abs(values.mean() - table.loc[multiple, "limit"])
        < 5 * values.std() / math.sqrt(repetitions) + slack
    )
assert table.loc[0.5, 10_000] < 0.01

# %% [markdown]
# WEINCE takes its $\hat\beta_i$ from the very shortfalls that enter the link. With $\lambda_i = 1$ it sits on the row $\beta = \beta_s$: the border, where the
# share of the nearest candidate vanishes only logarithmically. (A smaller $\lambda_i$ takes part of that weight off.)
#
# ## 10 · The sphere, and intrinsic dimension
#
# For a uniform direction in $\mathbb R^d$ the cosine $s$ to a fixed one has density proportional to $(1 - s^2)^{(d-3)/2}$, so
#
# $$P(1 - s \le x) \sim c\, x^{(d-1)/2}: \qquad \beta = \frac{d - 1}{2}, \qquad \xi = -\frac1\beta = -\frac{2}{d - 1}.$$
#
# At a finite threshold the estimate that knows the endpoint tends not to $\xi$ but, exactly, to
#
# $$\xi(u) = -E\!\left[\log \frac{w_u}{W} \,\Big|\, W < w_u\right] = -\int_0^1 \frac{F_W(w_u t)}{t\, F_W(w_u)}\, dt,$$
#
# where $W = 1 - s$ and $w_u = 1 - u$. A trained encoder is judged at finite thresholds, so this bias is worth knowing.

# %%
pairs = by_profile(profile, quick=400_000, cpu=4_000_000)
above = np.array([0.3, 0.1, 0.03, 0.01, 0.003, 0.001])
on_sphere, z_scores = {}, []
for d in (3, 6, 17):
    law = families.sphere_cosine(d)
    cosines = 1 + law.sample(pairs, draw)
    exact = np.array([shape_above(law, 1 - share) for share in above])
    fits = [
        fit_known_endpoint(cosines, threshold=1 + float(law.exceedance_level(share)))
        for share in above
    ]
    seen = np.array([fit.shape for fit in fits])
    error = np.abs(exact) / np.sqrt([fit.exceedances for fit in fits])  # of a power law, nearly
    z_scores.extend((seen - exact) / error)
    on_sphere[d] = (law.shape, exact, plots.Points(above, seen, 2 * error))
assert np.abs(z_scores).max() < 4.5  # 18 comparisons; false alarm 1e-4
{d: np.round(exact, 3).tolist() for d, (_, exact, _) in on_sphere.items()}

# %% [markdown]
# Since $1 - s = r^2/2$ with $r$ the distance between the unit vectors, a tail $P(1 - s \le x) \sim c x^\beta$ is the same as $P(r \le t) \sim c' t^{2\beta}$.
# The exponent of $r$ is the **local intrinsic dimension**: how many directions there are to be near in. So
#
# $$\mathrm{LID} = 2\beta, \qquad \hat\beta = \frac{k}{\sum_{m \le k} \log(\delta_{(k+1)}/\delta_{(m)})},$$
#
# the same estimator (Hill; Levina and Bickel, 2004) from the $k$ nearest candidates. On the sphere it is $d - 1$. Now the embeddings of the
# companion's encoders, trained with InfoNCE; anchors are combined by averaging $1/\hat\beta$ (MacKay and Ghahramani, 2005).

# %%
neighbours = np.array([4, 8, 16, 32, 64, 128])


def dimensions(z):
    """Local intrinsic dimension for each k, over all anchors, and the estimate from r itself."""
    r = cdist(z, z)
    r = r[~np.eye(len(r), dtype=bool)].reshape(len(r), -1)
    by_shortfall, by_distance = (
        np.array([1 / np.mean(1 / nearest_tail_index(tail, k)) for k in neighbours])
        for tail in (r**2 / 2, r)
    )
    return intrinsic_dimension(by_shortfall), by_distance


embedded = {}
for encoder_seed in seeds:
    config = vision_config(profile, loss="infonce", seed=encoder_seed)
    ready_encoder(config, profile=profile)
    images = training_images(config)
    z = extract_features(frozen_model(config, images), images.images[:2000]).double().numpy()
    embedded[encoder_seed] = z / np.linalg.norm(z, axis=1, keepdims=True)

# %%
lid = {seed: dimensions(z) for seed, z in embedded.items()}
vectors, ambient = z.shape
even = draw.standard_normal((vectors, ambient))
even_drawn, _ = dimensions(even / np.linalg.norm(even, axis=1, keepdims=True))
even_exact = np.array(
    [-2 / shape_above(families.sphere_cosine(ambient), 1 - k / (vectors - 1)) for k in neighbours]
)
assert all(np.allclose(a, b, rtol=1e-9) for a, b in lid.values())  # LID = 2 beta, as an identity
assert np.abs(even_drawn / even_exact - 1)[1:].max() < 0.05
shown_lines = {f"encoder seed {s}": values for s, (values, _) in lid.items()}
plots.sphere_and_embeddings(
    on_sphere, shown_lines | {"drawn evenly": even_drawn}, (neighbours, even_exact), ambient
)
plt.show()

# %% [markdown]
# *Left: on the sphere the estimate follows its exact curve and creeps to the dotted limit as the threshold rises. Right: the encoders' embeddings have
# far fewer directions to be near in than vectors spread evenly over the same sphere (dashed; dotted: its limit $d - 1$).*
#
# So for these encoders $\beta$ is small, and the cap is within reach: a candidate's shortfall varies by large factors within the tail. For evenly spread vectors
# $\beta$ would be in the tens and the endpoint out of sight. The dimension also depends on the scale $k$ at which one looks; it is not one number.

# %%
at_16 = int(np.flatnonzero(neighbours == 16)[0])
over_seeds = t_interval([values[at_16] for values, _ in lid.values()])
checks["encoder_dimension"] = over_seeds
checks["even_dimension"] = float(even_exact[at_16])
assert over_seeds.high < even_exact[at_16]
print(
    f"{images.name}, {vectors} vectors in {ambient} dimensions, k = 16: "
    f"{over_seeds.mean:.1f} [{over_seeds.low:.1f}, {over_seeds.high:.1f}] over {len(seeds)} seeds; "
    f"evenly spread {even_exact[at_16]:.1f}"
)

# %%
record = record_checks(
    "02_extreme_values",
    checks,
    profile=profile,
    settings={
        "seed": seed,
        "seeds": list(seeds),
        "temperature": temperature,
        "dimension": dimension,
        "blocks": blocks,
    },
)

# %% tags=["nbval-ignore-output"]
provenance()
