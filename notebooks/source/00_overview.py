# %% [markdown]
# # When Softmax Fails at the Top: the companion
#
# InfoNCE's softmax is the likelihood of a choice: the positive wins against the negatives when noise is
# Gumbel. Cosine similarity ends at 1, and near an endpoint extreme-value theory calls for another noise and
# another coordinate, $-\log(1-s)$. **WEINCE** blends the two, anchor by anchor, by what the batch's own tail
# says. The paper proves it, tests it on frozen encoders, and trains with it.
#
# This companion lets you run each of these steps, and tells you what it found.

# %% tags=["parameters"]
profile = "quick"

# %%
import pandas as pd
from matplotlib import pyplot as plt

from weince_lib import plots
from weince_lib.experiments import VERDICTS, decide_all, provenance

figure = plots.coordinates()
plots.save_figure(figure, "coordinates")
plt.show()

# %% [markdown]
# *Left: the logit of a candidate with cosine $s$, for blend weights $\lambda$ from InfoNCE (0) to the Weibull
# link (1), at $\tau = 0.5$, $\hat\beta = 2$. Right: its slope. InfoNCE pushes a candidate at cosine 0.999 no
# harder than one at 0.*
#
# ## Map
#
# | notebook | paper | what runs there | quick profile, two cores |
# |---|---|---|---|
# | [01_plackett_luce](01_plackett_luce.ipynb) | §2.1 | softmax from Gumbel noise; InfoNCE as the likelihood of a choice; scores recovered from winners and rankings | half a minute |
# | [02_extreme_values](02_extreme_values.ipynb) | §2.2.1, App. A | three limits for maxima and how fast; candidates that are not alike; the sphere | a minute, after four runs of 06 |
# | [03_link_functions](03_link_functions.ipynb) | §2.2.2–2.2.3, Table 1, App. B, C.3 | the link of each tail, exactly; what a wrong one costs at every temperature | a minute |
# | [04_misspecification](04_misspecification.ipynb) | App. C.1, Figure 5 | the noise floor of a wrong link; intervals that know about it | a minute, after one run of 06 |
# | [05_weince_loss](05_weince_loss.ipynb) | §3, Algorithm 1 | the loss step by step on a real batch; both limits; gradient; can the evidence say no? | two minutes |
# | [06_train_vision](06_train_vision.ipynb) | §4.1, App. F | one SimCLR run from images to evaluated features; every setting a parameter | a minute |
# | [08_tail_evidence](08_tail_evidence.ipynb) | §2.3.1, Figure 3 | peaks over threshold on frozen encoders | a minute, after four runs of 06 |
# | [09_link_selection](09_link_selection.ipynb) | §2.3.2, App. D | softmax against blend on held-out winners; rivals without an endpoint; hard negatives | a minute, after four runs of 06 |
# | [10_gradient_allocation](10_gradient_allocation.ipynb) | App. C.2, Figure 6 | where positives lose and where losses push, at every temperature | a minute, after four runs of 06 |
# | [11_tables](11_tables.ipynb) | Tables 2, 3, 6, 7 | ours beside the paper's | seconds |
#
# Two numbers are still free: 07 is for sentences, 12 for what drives the gain.
#
# | profile | where | what |
# |---|---|---|
# | `quick` | two cores, offline | embedded digits, a small ResNet, four seeds: every code path, small evidence |
# | `cpu` | two cores, hours | Fashion-MNIST, four seeds: real evidence |
# | `paper` | GPUs | the paper's encoders and schedule on an image folder |
#
# `make reproduce` runs it all in the quick profile. One notebook in batch, from any folder:
# `weince run 06_train_vision -p loss weince -p seed 7`.
#
# ## The claims
#
# Each claim of the paper stands in `paper/claims.toml` with the rule that decides it, and the verdict is computed
# from records.
#
# | verdict | means |
# |---|---|
# | *holds* | borne out in the generality it claims: a theorem, an identity, a known answer |
# | *holds here with limits* | borne out on less than it speaks of; the limits are named |
# | *does not hold here* | our numbers say otherwise, or rule out an effect of the size that would count |
# | *not testable here* | out of our reach, or our interval allows both answers; what it would take is named |
#
# A verdict is about the data set, encoder and seeds beside it, never about more. *Open* would mean that a
# record is not there yet.

# %%
decisions = decide_all()
verdicts = pd.Series([d.verdict for d in decisions], name="claims")
verdicts.value_counts().reindex(VERDICTS, fill_value=0).to_frame()

# %% [markdown]
# ### What we could look at

# %%
pd.set_option("display.max_colwidth", 400)
pd.set_option("display.max_rows", 200)
measured = [d for d in decisions if d.ours]
pd.DataFrame(
    {
        "claim": [f"{d.claim.label}: {d.claim.statement}" for d in measured],
        "verdict": [d.verdict for d in measured],
        "paper": [d.paper for d in measured],
        "ours": [d.ours for d in measured],
        "evidence": [d.evidence for d in measured],
        "limits, or what it would take": [d.limits or d.needs for d in measured],
        "notebook": [d.claim.notebook for d in measured],
    }
)

# %% [markdown]
# ### What is out of our reach, and what it would take

# %%
rest = [d for d in decisions if not d.ours]
pd.DataFrame(
    {
        "claim": [f"{d.claim.label}: {d.claim.statement}" for d in rest],
        "paper": [d.paper for d in rest],
        "verdict": [d.verdict for d in rest],
        "it would take": [d.needs for d in rest],
    }
)

# %%
assert measured, "no claim has been decided yet; run `make reproduce`"
for d in decisions:
    assert d.verdict != "holds here with limits" or d.limits, d.claim.id
    assert d.verdict != "not testable here" or d.needs, d.claim.id

# %% tags=["nbval-ignore-output"]
provenance()
