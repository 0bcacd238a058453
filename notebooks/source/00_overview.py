# %% [markdown]
# # When Softmax Fails at the Top: the companion

# %% [markdown] tags=["header"]
# **Paper:** the whole paper \
# **Time:** `quick` seconds (one core)
#
# [01 · InfoNCE is the likelihood of a choice →](01_plackett_luce.ipynb)

# %% [markdown]
# InfoNCE's softmax is the likelihood of a choice: the positive wins against the negatives when noise is
# Gumbel. Cosine similarity ends at 1, and near an endpoint extreme-value theory calls for another noise and
# another coordinate, $-\log(1-s)$. **WEINCE** blends the two, anchor by anchor, by what the batch's own tail
# says. The paper proves it, tests it on frozen encoders, and trains with it.
#
# This companion lets you run each of these steps, and tells you what it found.

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
# ## Contents

# %% [markdown] tags=["contents"]
# | notebook | paper | what runs there | quick profile |
# |---|---|---|---|
# | [01 · InfoNCE is the likelihood of a choice](01_plackett_luce.ipynb) | section 2.1, Equations 2.2 and 2.3 | softmax from Gumbel noise; InfoNCE as the likelihood of a choice; scores recovered from winners and rankings | seconds |
# | [02 · Extreme values: three limits for maxima](02_extreme_values.ipynb) | section 2.2.1, Equation 2.5, Appendix A | three limits for maxima and how fast; candidates that are not alike; the sphere | seconds |
# | [03 · Which link belongs to which tail?](03_link_functions.ipynb) | sections 2.2.2 and 2.2.3, Table 1, Theorem 2.4, Appendix B and C.3, Figures 1 and 2 | the link of each tail, exactly; what a wrong one costs at every temperature | half a minute |
# | [04 · What a wrong link converges to](04_misspecification.ipynb) | section 2.2.2, Appendix C.1, Figure 5 | the noise floor of a wrong link; intervals that know about it | seconds |
# | [05 · The WEINCE loss, step by step](05_weince_loss.ipynb) | section 3, Equations 3.1 and 3.2, Algorithm 1, Appendix E | the loss step by step on a real batch; both limits; gradient; can the evidence say no? | seconds |
# | [06 · Train an encoder](06_train_vision.ipynb) | section 4.1, Appendix F | one SimCLR run from images to evaluated features; every setting a parameter | seconds |
# | [07 · Sentences: SimCSE with WEINCE](07_train_text.ipynb) | section 4.2 | one SimCSE run from sentences to correlation with human judgement | seconds |
# | [08 · Does the similarity tail have an endpoint?](08_tail_evidence.ipynb) | section 2.3.1, Figure 3 | peaks over threshold on frozen encoders | seconds |
# | [09 · Which link explains who wins?](09_link_selection.ipynb) | section 2.3.2, Figure 4, Appendix D (Tables 4 and 5, Figures 7 to 10) | softmax against blend on held-out winners; rivals without an endpoint; hard negatives | seconds |
# | [10 · Does the loss push where positives lose?](10_gradient_allocation.ipynb) | section 2.3.2, Appendix C.2, Figure 6 | where positives lose and where losses push, at every temperature | seconds |
# | [11 · Tables](11_tables.ipynb) | section 4.1, Tables 2, 3, 6 and 7, Appendix F | ours beside the paper's | seconds |
# | [12 · What drives the gain?](12_what_drives_the_gain.ipynb) | sections 4.1 and 4.2, Table 2 | which of the changes helps: the endpoint coordinate, a sharper softmax, or extra terms | seconds |
# | [14 · Appendix: the proof of the limit theorem, checked](14_proof_checks.ipynb) | Appendix A | appendix: the proof of the limit theorem, each step evaluated | not measured |

# %% [markdown]
# ## How to run it
#
# | profile | where | what |
# |---|---|---|
# | `quick` | two cores, offline | embedded digits, a small ResNet, four seeds: every code path, small evidence |
# | `cpu` | two cores, hours | Fashion-MNIST and digit pairs, four seeds; sentences, five: real evidence |
# | `colab` | one free 15 GB GPU, one session | ResNet-18 on CIFAR-10, BERT-base on 200,000 sentences; both losses, one seed |
# | `gpu` | one GPU, ten minutes | ResNet-18 on a JPEG copy of CIFAR-10, 100 epochs, both losses |
# | `paper` | GPUs | the paper's encoders and schedule on its data sets |
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
# | *undecided here* | tested, and our interval allows both answers; what it would take is named |
# | *not testable here* | out of our reach; what it would take is named |
#
# A verdict is about the data set, encoder and seeds beside it, never about more. *Open* would mean that a
# record is not there yet.

# %%
decisions = decide_all()
verdicts = pd.Series([d.verdict for d in decisions], name="claims")
verdicts.value_counts().reindex(VERDICTS, fill_value=0).to_frame()

# %% [markdown]
# By the notebook that decides them:

# %%
where = pd.Series([d.claim.notebook for d in decisions], name="notebook")
pd.crosstab(where, verdicts).reindex(columns=VERDICTS, fill_value=0).rename_axis(columns=None)

# %% [markdown]
# ### What we could look at
#
# The limits of each, and the records behind it, are in `weince claims` and on the site's page of claims.

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
    assert d.verdict not in ("undecided here", "not testable here") or d.needs, d.claim.id

# %% tags=["nbval-ignore-output"]
provenance()
