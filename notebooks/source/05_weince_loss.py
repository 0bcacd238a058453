# %% [markdown]
# # 05 · The WEINCE loss, step by step
#
# **Paper:** section 3, Equations 3.1 and 3.2, Algorithm 1, Appendix E. **Time:** `quick` seconds.
#
# [← 04](04_misspecification.ipynb) · [Contents](00_overview.ipynb) · [Claims](../paper/claims.toml) · [06 →](06_train_vision.ipynb)

# %% [markdown]
# **Question.** What does WEINCE do to a batch, line by line, and does its gate close where there is no endpoint?
#
# InfoNCE scores a candidate by $s/\tau$, whatever its distance from 1, the largest possible cosine (the *cap*). WEINCE looks at
# each anchor's *tail*: the cosines of its hardest negatives, those nearest to the cap. Where they look as if they ended at the
# cap, WEINCE mixes the coordinate $-\hat\beta\log(1-s)$ into the score, with a weight $\lambda$. It reads $\hat\beta$ and
# $\lambda$ from the batch.
#
# Every step below is a few lines of code, compared with the library's loss. A mark says where a step comes from: **[paper]** the
# paper states it, **[release]** only the authors' released code shows it, **[ours]** this project adds it. (The release's
# training script sets $\hat\beta = 1$ and adds two further losses. Notebook [12](12_what_drives_the_gain.ipynb) takes that
# apart.)

# %% tags=["setup"]
# `weince badges --repo OWNER/NAME` lets this cell install the library in Colab.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")

# %% tags=["parameters"]
profile = "quick"
seed = 7
pairs = 128
temperature = 0.5
anchor = 3
retrain = False

# %%
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib import pyplot as plt

from weince_lib import TailSettings, WEINCELoss, infonce_loss, plots, tail_evidence, weince_loss
from weince_lib.experiments import (
    frozen_model,
    ready_encoder,
    record_checks,
    train_anew,
    training_images,
    vision_config,
)
from weince_lib.losses import blended_logits
from weince_lib.losses.evidence import evidence_from_tail
from weince_lib.vision import augmentation

torch.set_num_threads(1)
if retrain:
    train_anew()
config = vision_config(profile, loss="infonce", seed=seed)
paper = TailSettings()

# %% [markdown]
# ## A real batch
#
# An encoder trained with InfoNCE embeds two augmented views of each of $N$ images. (Its weights are part of the repository;
# `retrain = True` trains it here.) Stacked, the views are $M = 2N$ vectors, and each of them is an *anchor* once. Its *positive*
# is the other view of the same image, number $i^+ = (i + N) \bmod 2N$. All other vectors are its *negatives*.

# %%
ready_encoder(config, profile=profile)
images = training_images(config)
model = frozen_model(config, images)
generator = torch.Generator().manual_seed(seed)
drawn = torch.randperm(len(images), generator=generator)[:pairs]
with torch.no_grad():
    z0, z1 = (model(view) for view in augmentation(config.dataset)(images.images[drawn], generator))
print(f"{images.name}: N = {pairs} pairs, z0 and z1 of shape {tuple(z0.shape)}")

# %% [markdown]
# ## 1 · Cosines and shortfalls [paper]
#
# $$s_{ij} = \frac{z_i^\top z_j}{\lVert z_i\rVert \lVert z_j\rVert}, \qquad \delta_{ij} = 1 - s_{ij} \in [0, 2].$$
#
# One matrix product gives all cosines. The *shortfall* $\delta_{ij}$ is the distance of a cosine from the cap. For unit vectors
# $\delta_{ij} = \tfrac12\lVert z_i - z_j\rVert^2$, half a squared distance. The code raises shortfalls below a *floor* of
# $10^{-6}$ to it, so that all logarithms are finite.

# %%
z = F.normalize(torch.cat([z0, z1]), dim=1)
scores = z @ z.T
positives = torch.arange(2 * pairs).roll(pairs)
shortfall = (1 - scores).clamp_min(paper.floor)
negative = ~torch.eye(2 * pairs, dtype=torch.bool)
negative[torch.arange(2 * pairs), positives] = False

# %% [markdown]
# ## 2 · How close is the hardest negative?
#
# $$\rho_i = \min_{j \in \mathrm{Neg}(i)} \delta_{ij} \ \text{[paper]}, \qquad \rho_0 = \text{the 0.2-quantile of } \rho \text{ over the batch's anchors [release]}.$$
#
# $\mathrm{Neg}(i)$ are the negatives of anchor $i$. The reference $\rho_0$ is relative: in every batch about a fifth of the
# anchors lies below it, however far from the cap all of them are.

# %%
rho = shortfall.masked_fill(~negative, float("inf")).min(dim=1).values
rho_0 = rho.sort().values[int(np.ceil(0.2 * len(rho))) - 1]

# %% [markdown]
# ## 3 · Two straight lines through the tail
#
# An anchor's tail is its $K = \max(32, 0.1\,(2N - 2))$ smallest shortfalls. The $k$-th smallest gets the rank
# $\hat F_k = k/(K+1)$, an estimate of the share of the tail below it. The smallest twentieth of the tail is left out
# **[release]**. Two lines are then fitted **[paper]**, in these forms **[release]**:
#
# - If the tail ends at the cap, the share below $\delta$ grows like $\delta^\beta$. Then $\log \hat F$ is a line in $\log\delta$,
#   and its slope is the *tail index* $\hat\beta$.
# - The *Gumbel proxy* stands for a tail without an endpoint. It makes $\log(-\log\hat F)$ a line in $\log\delta$.
#
# Least squares gives each line its squared error. A line whose slope has the wrong sign gets $10^6$ added, so that it loses.

# %%
size = paper.tail_size(2 * pairs - 2)
tails = shortfall.masked_fill(~negative, float("inf")).sort(dim=1).values[:, :size].double()
log_rank = torch.log(torch.arange(1, size + 1, dtype=torch.float64) / (size + 1))
kept = slice(max(1, size // 20), size)


def line(x, y):
    """Least squares of y on x in each row: the slope and the squared error."""
    x, y = x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True)
    slope = (x * y).sum(-1) / (x * x).sum(-1)
    return slope, (y - slope[..., None] * x).square().sum(-1)


# %% [markdown]
# Akaike's criterion compares the two: $\mathrm{AIC} = n\log(\mathrm{SSE}/n) + 4$ for a line through $n$ points with the sum of
# squared errors $\mathrm{SSE}$. Lower is better. The difference is
# $\Delta\mathrm{AIC}_i = \mathrm{AIC}_\text{Gumbel} - \mathrm{AIC}_\text{Weibull}$ **[paper]**, where *Weibull* is the paper's
# name for the endpoint line. Positive values favour the endpoint.

# %%
slope, endpoint_error = line(tails[:, kept].log(), log_rank[kept].expand_as(tails[:, kept]))
proxy_slope, proxy_error = line(
    tails[:, kept].log(), torch.log(-log_rank[kept]).expand_as(tails[:, kept])
)
endpoint_error = endpoint_error + 1e6 * (slope <= 0)
proxy_error = proxy_error + 1e6 * (proxy_slope >= 0)
points = size - kept.start
delta_aic = points * torch.log(proxy_error / endpoint_error)  # the rest of both AIC is equal
beta_hat = slope.clamp_min(0)

evidence = tail_evidence(scores, positives, paper)  # the library's
beta_gap = float((beta_hat / evidence.beta - 1).abs().max())
aic_gap = float((delta_aic - evidence.delta_aic).abs().max())
print(f"the library finds the same: {beta_gap < 1e-4 and aic_gap < 0.05}")
plots.line_fits(tails[anchor].float(), evidence, anchor)
plt.show()

# %% [markdown]
# *One anchor's tail. Left: the endpoint line; its slope is $\hat\beta$. Right: the Gumbel proxy. The nearest negatives (open
# dots) are left out of both fits.*
#
# ## 4 · From evidence to a blend weight
#
# $$\lambda_i = \sigma\!\left(\kappa_\rho \log\frac{\rho_0}{\rho_i}\right)\,\sigma\!\left(\kappa_\mathrm{AIC}(\Delta\mathrm{AIC}_i - m)\right) \tag{3.2}$$
#
# $\sigma(t) = 1/(1 + e^{-t})$. The first factor, *proximity*, is near 1 for anchors whose hardest negative is closer to the cap
# than $\rho_0$. The second factor, the *gate*, is near 1 for anchors whose tail favours the endpoint by more than the *margin*
# $m$. We call a gate *open* above one half, that is, where $\Delta\mathrm{AIC} > m$. No gradient flows through either factor
# **[paper]**. The values $\kappa_\rho = 10$, $\kappa_\mathrm{AIC} = 1$, $m = 2$ are the release's.

# %%
proximity = torch.sigmoid(10 * torch.log(rho_0 / rho))
gate = torch.sigmoid(1 * (delta_aic - 2))
weight = (proximity * gate).float()
lambda_gap = float((evidence.lam - weight).abs().max())
print(f"{float((gate > 0.5).double().mean()):.0%} of the gates are open")
plots.evidence_over_anchors(evidence)
plt.show()

# %% [markdown]
# *The $2N$ anchors of the batch. Left: shortfall of the hardest negative. Middle: tail index. Right: weight. Most anchors have
# $\lambda$ near 0 and stay with InfoNCE; those left of $\rho_0$ are corrected.*
#
# ## 5 · The blended logit and the loss [paper]
#
# $$\ell_{ij} = (1 - \lambda_i)\,\frac{s_{ij}}{\tau} + \lambda_i\left(-\hat\beta_i \log(1 - s_{ij})\right) \tag{3.1}$$
#
# The loss is the cross-entropy of these logits over the same $2N - 1$ candidates as in InfoNCE.

# %%
lam, beta = weight[:, None], beta_hat.float()[:, None]
logits = (1 - lam) * scores / temperature - lam * beta * shortfall.log()
logits.fill_diagonal_(float("-inf"))
by_hand = F.cross_entropy(logits, positives)
by_library = WEINCELoss(temperature)(z0, z1)
loss_gap = float((by_hand - by_library).abs() / by_library)
print(f"by hand {by_hand:.4f}, by library {by_library:.4f}")

# %% [markdown]
# ## Both limits
#
# With $\lambda_i = 0$ the logit is $s/\tau$ and WEINCE is InfoNCE. With $\lambda_i = 1$ a candidate wins with probability
# $p_{ij} \propto (1 - s_{ij})^{-\hat\beta_i}$: the *endpoint link*, the Weibull row of the paper's Table 1. We check both, and
# count the loss's trainable parameters.

# %%
zero, one = torch.zeros(2 * pairs), torch.ones(2 * pairs)
never = WEINCELoss(temperature, evidence_margin=1e9, impl="reference")  # a gate that stays shut
infonce_gap = float((never(z0, z1) - infonce_loss(z0, z1, temperature, impl="reference")).abs())

blend = blended_logits(scores.double(), one.double(), evidence.beta.double(), temperature)
power = shortfall.double() ** -evidence.beta.double()[:, None]
candidates = ~torch.eye(2 * pairs, dtype=torch.bool)
softmax = blend.masked_fill(~candidates, float("-inf")).softmax(1)
weibull = (power * candidates) / (power * candidates).sum(1, keepdim=True)
weibull_gap = float((softmax - weibull).abs().max())
trainable = sum(p.numel() for p in WEINCELoss().parameters())
print(f"difference from InfoNCE at lambda = 0: {infonce_gap}; trainable parameters: {trainable}")

# %% [markdown]
# ## The gradient
#
# $L$ is the mean loss of the $2N$ anchors, and $p_{ij}$ the softmax of anchor $i$'s logits. With $\lambda_i$ and $\hat\beta_i$
# held constant, and $s_{ij}$ and $s_{ji}$ counted as two numbers,
#
# $$\frac{\partial L}{\partial s_{ij}} = \frac{p_{ij} - \mathbb 1[j = i^+]}{2N}\left(\frac{1 - \lambda_i}{\tau} + \frac{\lambda_i \hat\beta_i}{1 - s_{ij}}\right).$$
#
# The second term in the bracket is the endpoint correction. It grows without bound as a candidate nears the cap. Automatic
# differentiation in float64 gives the same gradient. So no gradient flows through $\lambda$ or $\hat\beta$.

# %%
wide = F.normalize(z.double(), dim=1).requires_grad_()
loss, found = weince_loss(wide[:pairs], wide[pairs:], temperature, return_evidence=True)
(automatic,) = torch.autograd.grad(loss, wide)

unit = wide.detach()
s = unit @ unit.T
lam, beta = found.lam[:, None], found.beta[:, None]
p = (
    blended_logits(s, found.lam, found.beta, temperature)
    .masked_fill(~candidates, -torch.inf)
    .softmax(1)
)
p[torch.arange(2 * pairs), positives] -= 1
per_score = (
    p / (2 * pairs) * ((1 - lam) / temperature + lam * beta / (1 - s).clamp_min(paper.floor))
)
per_score.fill_diagonal_(0)
along = (per_score + per_score.T) @ unit
closed_form = along - unit * (along * unit).sum(1, keepdim=True)
gradient_gap = float((automatic - closed_form).abs().max() / automatic.abs().max())
print(f"closed form and automatic differentiation agree: {gradient_gap < 1e-9}")

# %% [markdown]
# ## What the link does to one negative
#
# Take an anchor with a positive at cosine 0.8 and 254 negatives spread like the batch's, add one more negative and move it
# towards the cap. How probable is it that this negative wins, and how hard does the loss push it away? $\hat\beta$ is the median
# of the batch.

# %%
background = torch.quantile(scores[negative], torch.linspace(0.01, 0.9, 254))
moving = torch.linspace(0.0, 0.995, 200)
typical_beta = float(evidence.beta.median())
rows = torch.cat([torch.full((200, 1), 0.8), moving[:, None], background.expand(200, -1)], dim=1)
curves = {}
for label, weight in (("infonce", 0.0), ("weince", 0.5), ("weibit", 1.0)):
    constant = torch.full((200,), weight)
    logit = blended_logits(rows, constant, torch.full((200,), typical_beta), temperature)
    chance = logit.softmax(1)[:, 1]
    slope = (1 - weight) / temperature + weight * typical_beta / (1 - moving)
    curves[label] = (chance.numpy(), (chance * slope).numpy())
plots.links(
    curves, moving.numpy(), "probability that it wins", "Probability of the moving negative"
)
plt.show()

# %% [markdown]
# *Left: probability that the moving negative wins. Right: gradient with respect to its cosine. WEINCE is drawn at
# $\lambda = 0.5$; "Weibit" is the endpoint link alone, $\lambda = 1$. Both put more probability and more push on a negative near
# the cap.*
#
# The slope of the endpoint coordinate is $\hat\beta/\delta$, and that of the softmax is $1/\tau$. So **the endpoint coordinate is
# the steeper one only for shortfalls below $\delta = \hat\beta\tau$.** Farther out it is flatter than InfoNCE. At $\tau = 0.5$
# and $\beta = 2$ the slopes cross at cosine 0; at $\tau = 0.07$ they cross at cosine 0.86.
#
# The next figure has sliders for $\tau$, $\beta$, $\lambda$ and the dimension $d$ of the sphere that the negatives come from. It
# shows the logit, its slope, and who wins among a positive at 0.8 and the nearest 11 of 510 negatives.

# %%
plots.explorer(temperature)

# %% [markdown]
# ## Can the evidence say no?
#
# The paper moves an anchor towards the endpoint link "only when anchor-wise tail evidence supports it". We test this on tails of
# known kind: 2,000 anchors of each, with 510 negatives. *Weibull, β* means that a shortfall lies below $x$ with probability
# $x^\beta$, so that the cosines end at the cap. The normal, exponential and Gumbel cosines have no endpoint. The table gives the
# share of anchors with an open gate ($\Delta\mathrm{AIC} > m = 2$) for two kinds of evidence:
#
# - *paper's lines*: the two lines from above;
# - *likelihood* **[ours]**: the likelihood of a Weibull tail that ends at the cap against that of an exponential tail, one
#   parameter each.

# %%
draw = np.random.default_rng(0)
anchors, negatives = 2000, 510


def weibull_scores(b):
    return 1 - draw.random((anchors, negatives)) ** (1 / b)


known_tails = {
    "Weibull, β = 0.5": weibull_scores(0.5),
    "Weibull, β = 1": weibull_scores(1),
    "Weibull, β = 2": weibull_scores(2),
    "normal, sd 0.1": draw.normal(0, 0.1, (anchors, negatives)),
    "exponential, mean 0.05": draw.exponential(0.05, (anchors, negatives)),
    "Gumbel, scale 0.05": draw.gumbel(0, 0.05, (anchors, negatives)),
}


def share_open(tail_scores, settings):
    """Share of anchors with Delta AIC above the margin; a positive at 0 joins each row."""
    k = settings.tail_size(negatives)
    delta = torch.from_numpy(1 - tail_scores).clamp_min(settings.floor)
    smallest = delta.topk(k + 1, largest=False, sorted=True).values
    return float((evidence_from_tail(smallest, k, settings).delta_aic > 2).double().mean())


likelihood = TailSettings(tail_index="hill", evidence="likelihood")
shares = pd.DataFrame(
    {
        "paper's lines": {name: share_open(v, paper) for name, v in known_tails.items()},
        "likelihood": {name: share_open(v, likelihood) for name, v in known_tails.items()},
    }
)
shares.round(2)

# %% [markdown]
# The two straight lines favour an endpoint for every kind of tail, an exponential one included. On these tails $\lambda_i$ is in
# effect the proximity factor alone. (In the encoder's batch above, 87 % of the gates were open.) The likelihood opens for the
# Weibull tails and stays shut for the others.
#
# ### Why the proxy loses
#
# A line in $\log(-\log F)$ against $\log\delta$ says $F(\delta) = e^{-A\delta^{c}}$ with $c < 0$. This $F$ goes to zero faster
# than every power of $\delta$. An exponential tail is of another form: its $\log F$ is linear in $\delta$ itself. So the proxy
# does not contain the exponential tail. How much of the variance does each line leave unexplained, on the 32 nearest negatives of
# the exponential tails?

# %%
exponential = torch.from_numpy(np.sort(1 - known_tails["exponential, mean 0.05"], axis=1))
x = exponential[:, kept].clamp_min(paper.floor).log()
unexplained = {}
for name, y in {
    "endpoint line": log_rank[kept],
    "Gumbel proxy": torch.log(-log_rank[kept]),
}.items():
    _, error = line(x, y.expand_as(x))
    unexplained[name] = float((error / (y - y.mean()).square().sum()).median())
pd.Series(unexplained, name="median share of variance left").round(3).to_frame()

# %% [markdown]
# Neither line is right, and the proxy is the worse one by far. So a comparison of the two says "endpoint" where there is none.
# The likelihood compares the endpoint with the exponential tail itself, and can therefore say no.

# %% [markdown]
# ### The weight depends on the other anchors of the batch
#
# With all gates open, $\lambda_i$ compares $\rho_i$ with $\rho_0$, and $\rho_0$ is a quantile of the batch's own $\rho$. So the
# weight is a rank: about a fifth of the anchors lies left of $\rho_0$ and gets a weight near or above one half, whatever their
# tails are. Is $\lambda$ small without an endpoint and large with one? The answer depends on the batch, and we try two kinds:
#
# - **homogeneous**: all 2,000 anchors have an exponential tail, or all have $\beta = 1$; and 512 independent random directions in
#   512 dimensions, whose nearest neighbour is far from the cap;
# - **mixed**: anchors with an exponential tail and anchors with $\beta = 1$ in one batch, in two proportions.
#
# The table gives the mean of $\lambda$ and the share of anchors with $\lambda$ above one half.

# %%
without_endpoint, with_endpoint = "exponential, mean 0.05", "Weibull, β = 1"
tail_points = paper.tail_size(negatives)
tails = {
    law: torch.from_numpy(1 - known_tails[law])
    .clamp_min(paper.floor)
    .topk(tail_points + 1, largest=False, sorted=True)
    .values
    for law in (without_endpoint, with_endpoint)
}


def weights(smallest):
    """Lambda of the anchors of one batch, from their sorted tails."""
    return evidence_from_tail(smallest, tail_points, paper).lam


def mixed(share):
    """Lambda without and with an endpoint in one batch; `share` of its anchors have one."""
    bounded = int(share * anchors)
    lam = weights(torch.cat([tails[without_endpoint][bounded:], tails[with_endpoint][:bounded]]))
    return lam[: anchors - bounded], lam[anchors - bounded :]


random_directions = np.random.default_rng(1).standard_normal((512, 512))
directions = F.normalize(torch.from_numpy(random_directions), dim=1)
random_lam = tail_evidence(directions @ directions.T, torch.arange(512).roll(256), paper).lam

batch_kinds = {
    "exponential tails only": (weights(tails[without_endpoint]), None),
    "random directions only": (random_lam, None),
    "β = 1 only": (None, weights(tails[with_endpoint])),
    "half exponential, half β = 1": mixed(0.5),
    "nine tenths exponential, one tenth β = 1": mixed(0.1),
}
weight_rows = {
    kind: {
        f"{what} {which}": float("nan") if lam is None else float(take(lam))
        for which, lam in zip(("without endpoint", "with endpoint"), pair, strict=True)
        for what, take in (
            ("mean λ", torch.mean),
            ("share above ½", lambda lam: (lam > 0.5).double().mean()),
        )
    }
    for kind, pair in batch_kinds.items()
}
by_batch = pd.DataFrame(weight_rows).T
by_batch.round(2)

# %% [markdown]
# *"With endpoint" are the anchors with $\beta = 1$, "without endpoint" all others. An empty field means that the batch has no
# such anchors.*
#
# Mixed half and half the weight does what the paper says: it is 0 without an endpoint and 0.40 on average with one. But a rank
# cannot be small for a whole batch. Where no anchor has an endpoint, the mean weight is 0.35; where all have one, it is 0.20. Of
# the random directions a fifth gets more than one half. Where one anchor in ten has an endpoint, $\rho_0$ lies among the others,
# and some of these are corrected as well.

# %% [markdown]
# ## A gate that can say no [ours]
#
# The likelihood's gate has three settings: the number $k$ of tail points, the margin $m$ and the steepness $\kappa_\mathrm{AIC}$.
# To choose them, we draw tails of known kind for 62 to 65,534 negatives. It is enough to draw the tail: the $k + 1$ smallest of
# $n$ uniform numbers have exactly the law of
#
# $$U_{(j)} = \frac{S_j}{S_{n+1}}, \qquad S_j = E_1 + \dots + E_j, \quad E_i \text{ standard exponential},$$
#
# and a law's quantile function turns them into shortfalls. So 65,534 negatives cost no more than 62.
#
# First, the number of tail points. The paper takes a tenth of the negatives. Evidence adds up over tail points, so with many of
# them even the likelihood sees that a normal tail is not exactly exponential, and opens. The table shows its share of open gates
# ($m = 2$) for laws without an endpoint; brackets hold mean and standard deviation, or the scale.

# %%
from dataclasses import replace

from weince_lib.diagnostics import KNOWN_TAILS, Gate, as_frame, gate_shares
from weince_lib.losses import preset

without = [law for law in KNOWN_TAILS if not law.endpoint]
batches = (62, 254, 1022, 4094, 16382)
tenth = as_frame(
    gate_shares(
        without,
        negatives=batches,
        tails=lambda n: [paper.tail_size(n)],
        gates=[Gate.of("likelihood, m = 2", likelihood)],
        anchors=300,
        seed=seed,
    )
)
growing_tail = tenth.pivot(index="law", columns="negatives", values="share")
growing_tail.round(2)

# %% [markdown]
# So we keep the number of tail points fixed, at the paper's least, $k = 32$. More negatives then mean a tail nearer the cap.
# Margin and steepness remain. The criterion: **on every tail without an endpoint, and for every number of negatives, both the
# mean gate $\sigma(\kappa_\mathrm{AIC}(\Delta\mathrm{AIC} - m))$ and the share of open gates stay at or below 5 %. Among the
# settings that keep this we take the one with the largest mean gate at $\beta = 1$ and 2.** In the table, *worst without
# endpoint* is the larger of the two numbers on the worst law, and *power* is the mean gate at $\beta = 1$ and 2.

# %%
calibrated = preset("calibrated")
settings = {
    (sharpness, margin): replace(calibrated, evidence_sharpness=sharpness, evidence_margin=margin)
    for sharpness in (0.5, 1.0, 2.0, 4.0)
    for margin in np.arange(1.0, 6.5, 0.5)
}
power_laws = [law for law in KNOWN_TAILS if law.name in ("Weibull, β = 1", "Weibull, β = 2")]
scan = as_frame(
    gate_shares(
        without + power_laws,
        negatives=(62, 510, 65534),
        tails=[32],
        gates=[Gate.of(f"{k:g} {m:g}", s) for (k, m), s in settings.items()],
        anchors=2000,
        seed=seed,
    )
)
# Seen from 62 negatives on: there 32 points are half of them, the hardest case.
worst = scan[~scan.endpoint].groupby("gate")[["share", "mean_gate"]].max().max(axis=1)
power = scan[scan.endpoint].groupby("gate")["mean_gate"].mean()
chosen = pd.DataFrame({"worst without endpoint": worst, "power": power})
chosen = chosen.join(chosen.index.to_series().str.split(expand=True).astype(float))
chosen = chosen.rename(columns={0: "κ_AIC", 1: "m"}).set_index(["κ_AIC", "m"]).sort_index()
allowed = chosen[chosen["worst without endpoint"] <= 0.05]
allowed.sort_values("power").groupby("κ_AIC").tail(1).sort_index().round(3)

# %% [markdown]
# *For each steepness, the margin that the criterion takes. At $\kappa_\mathrm{AIC} = 0.5$ no margin up to 6 keeps it.*
#
# The best row is the library's `calibrated` preset, `WEINCELoss.from_preset("calibrated")`. The default of `WEINCELoss` stays the
# paper's. The next figure maps the paper's gate and the preset's gate over more tails, among them *sphere, d*: cosines of uniform
# directions in $d$ dimensions.

# %%
study = gate_shares(negatives=(510, 4094, 65534), anchors=500, seed=seed)
plots.gate_calibration(study, tail=calibrated.min_tail)
plt.show()

# %% [markdown]
# *Share of anchors with an open gate, in percent of 500. Top: the paper's lines. Bottom: the preset. Above the white line the cap
# is the endpoint, below it there is none. Framed: the preset's number of tail points.*
#
# The paper's gate is open nearly everywhere. The preset's gate opens for small $\beta$, where the endpoint coordinate matters. It
# rarely opens for large $\beta$ or on a sphere of many dimensions. There the tail keeps away from the cap, and $-\log(1-s)$ is
# nearly a straight line over it.
#
# The dark cells of $\beta = 0.5$ come from the floor: with so many negatives, most of the nearest shortfalls lie below $10^{-6}$,
# all of them become equal, and there is nothing to fit.

# %% [markdown]
# ## Answer
#
# WEINCE is InfoNCE with another slope for some anchors. It takes two line fits, a comparison, a rank within the
# batch, and a mix of two logits: about thirty lines of code.
#
# **The gate does not say no.** The line fits favour an endpoint on every tail that we drew, also where there is none.
# So $\lambda$ is a rank: about a fifth of the anchors gets more than one half, on random directions too. In a batch mixed
# half and half the rank does what the paper says.
#
# **What it rests on.** 2,000 drawn anchors for each known tail, with 510 negatives; one batch of one trained encoder for the
# steps.
#
# **What it does not show.** Whether a gate that can say no trains better encoders:
# [12](12_what_drives_the_gain.ipynb) sees no gain. Nor whether the tail of the scores is the
# one that matters ([03](03_link_functions.ipynb)).

# %% tags=["checks", "hide-input"]
# Checks of the values that the text states.
open_without_endpoint = shares["paper's lines"][without_endpoint]
free, bounded = "mean λ without endpoint", "mean λ with endpoint"
alone, random_only, all_bounded, halves, tenth_bounded = by_batch.to_dict("records")
excess_weight = alone[free] - all_bounded[bounded]
at_default = gate_shares(
    negatives=(62, 510, 65534),
    tails=lambda n: [calibrated.tail_size(n)],
    gates=[Gate.of("calibrated", calibrated)],
    seed=seed,
)
ours = as_frame(at_default)
assert beta_gap < 1e-4 and aic_gap < 0.05 and lambda_gap < 1e-3 and loss_gap < 1e-5
assert infonce_gap == 0.0 and weibull_gap < 1e-6 and trainable == 0 and gradient_gap < 1e-9
assert shares["paper's lines"].min() > 0.99
assert shares["likelihood"][without_endpoint] < 0.05 < 0.95 < shares["likelihood"][with_endpoint]
assert unexplained["Gumbel proxy"] > 5 * unexplained["endpoint line"]
assert halves[free] < 1e-6 < 0.3 < halves[bounded] and alone[free] > all_bounded[bounded]
assert allowed["power"].idxmax() == (calibrated.evidence_sharpness, calibrated.evidence_margin)
assert ours[~ours.endpoint]["share"].max() <= 0.05
assert ours[ours.law == "Weibull, β = 1"]["share"].min() > 0.95
assert growing_tail.loc["normal(0.3, 0.1)", 16382] > 0.9
print("checked")

# %% tags=["nbval-ignore-output"]
record = record_checks(
    "05_weince_loss",
    {
        "beta_by_hand_relative_gap": beta_gap,
        "delta_aic_by_hand_gap": aic_gap,
        "proxy_unexplained_variance": unexplained["Gumbel proxy"],
        "endpoint_unexplained_variance": unexplained["endpoint line"],
        "loss_by_hand_relative_gap": loss_gap,
        "lambda_by_hand_gap": lambda_gap,
        "infonce_gap_at_lambda_0": infonce_gap,
        "weibull_link_gap_at_lambda_1": weibull_gap,
        "gradient_relative_gap": gradient_gap,
        "trainable_parameters": trainable,
        "weight_without_minus_with_endpoint": excess_weight,
        "mean_weight_without_endpoint": alone[free],
        "mean_weight_with_endpoint": all_bounded[bounded],
        "mean_weight_random_directions": random_only[free],
        "share_above_half_random_directions": random_only["share above ½ without endpoint"],
        "mixed_half_without_endpoint": halves[free],
        "mixed_half_with_endpoint": halves[bounded],
        "mixed_tenth_without_endpoint": tenth_bounded[free],
        "mixed_tenth_with_endpoint": tenth_bounded[bounded],
        "gate_open_without_endpoint": open_without_endpoint,
        "likelihood_gate_open_without_endpoint": shares["likelihood"]["exponential, mean 0.05"],
    },
    profile=profile,
    settings={"seed": seed, "pairs": pairs, "temperature": temperature},
)
record.provenance
