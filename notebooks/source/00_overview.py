# %% [markdown]
# # When Softmax Fails at the Top: the companion
#
# **Paper:** the whole paper. **Time:** `quick` seconds.
#
# [01 →](01_plackett_luce.ipynb)

# %% [markdown]
# **InfoNCE** scores a candidate by $s/\tau$: its cosine with the anchor over a temperature. Cosines end at 1, the *cap*. The paper argues
# that near such an end extreme-value theory calls for another coordinate, $-\log(1 - s)$, in which a candidate close to the cap
# counts far more. The function from cosine to logit is called the *link*.
#
# **WEINCE** mixes the two for each anchor, $(1-\lambda)\,s/\tau + \lambda\,(-\hat\beta\log(1-s))$. It reads the weight
# $\lambda$ and the slope $\hat\beta$ from the cosines of the anchor's hardest negatives, and has no parameters to train.
#
# **Question.** Does it help, and why? This page gives the answer; the other notebooks show where it comes from.

# %% tags=["setup"]
# `weince badges --repo OWNER/NAME` lets this cell install the library in Colab.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")

# %% tags=["parameters"]
profile = "quick"

# %%
import pandas as pd
from IPython.display import Markdown, display
from matplotlib import pyplot as plt

from weince_lib import plots
from weince_lib.experiments import VERDICTS, decide_all, load_results, provenance
from weince_lib.publish import findings
from weince_lib.studies.decide import RULE, finding

# %% [markdown]
# ## Six findings

# %% tags=["hide-input"]
found = findings.decisions()
primary = found[found["role"] == "primary"]
checked = load_results("quick").set_index("metric")["value"]


def measured(contrast):
    """A contrast on every data set and measure that decides."""
    rows = primary[(primary["contrast"] == contrast) & primary["low"].notna()]
    return "; ".join(
        f"{r['data']}, {findings.MEASURES[r['metric']]} {finding(r)}"
        for r in rows.to_dict("records")
    )


share_open = checked["gate_open_without_endpoint"]
texts = {
    "A lower temperature is better, by less after longer training.": "*Longer* has four times the "
    f"steps. InfoNCE at the τ that validation chooses, less τ = 0.5: "
    f"{measured('lower temperature')}.",
    "Beside a tuned temperature the blend adds about half a point on one data set of three.": "Each "
    "loss at the temperature that validation chooses: "
    f"{measured('blend, each tuned on validation')}.",
    "The release's further losses help InfoNCE without the blend.": "Its script adds two losses to "
    f"WEINCE and not to InfoNCE. Added to InfoNCE: {measured('both further losses')}.",
    "An anchor does no better with its own λ than with another's.": "λ of each anchor, less λ "
    f"shuffled over the batch: {measured('own λ, not shuffled')}. The gate that makes λ favours an "
    f"endpoint for {share_open:.0%} of anchors whose tail has none (notebook 05).",
    "The tail that WEINCE reads is not the tail that decides the link.": "The gate reads the scores; "
    "the link follows the noise in the choices. The same scores, read as β̂ = "
    f"{checked['score_index_of_the_two_tails']:.1f}, call for a linear link under Gumbel noise and "
    "for an endpoint link under Weibull noise (notebook 03).",
    "The mathematics holds on the examples we tried.": "The limits, the links and the noise floor of "
    "a wrong link are as stated, with a gap in the wording of one condition "
    "(notebooks 02 to 04).",
}
for number, (lead, text) in enumerate(texts.items(), 1):
    display(Markdown(f"{number}. **{lead}** {text}"))

# %% [markdown]
# Differences are in points of test accuracy. The *converged probe* is a linear classifier on the frozen features; *R@1* is the share
# of images whose nearest neighbour has their class. One rule makes intervals and words ([12](12_what_drives_the_gain.ipynb)).

# %%
figure = plots.contrast_forest(primary, dict(list(findings.MEASURES.items())[:2]), RULE.margin)
plt.show()

# %% [markdown]
# *The five contrasts on every data set, for the two measures that decide. Bars are 95 % intervals that hold together; the band is
# ±0.97 points, the paper's smallest gain.*
#
# ## What should I do?
#
# | you | then |
# |---|---|
# | train with InfoNCE | tune the temperature on validation first, down to 0.05; 0.5 is better in none of our studies |
# | have tuned it and want more | train `WEINCELoss(τ)` at the tuned τ beside it, from the same seeds; expect half a point, or nothing |
# | cannot tune it | add the release's further losses to InfoNCE at 0.5; on CIFAR-10 (JPEG) they give what tuning gives |
# | train sentence encoders | try `SelfSettingLoss("kl")`, which has nothing to tune; on word vectors it leads a tuned InfoNCE by seven points ([13](13_beyond_the_blend.ipynb)) |
# | want to know your encoder's tail | `weince diagnose embeddings.npy`; it describes the scores and promises no gain |
#
# **What this rests on.** Small encoders trained for minutes to an hour on two cores, with four to eight seeds. **What it does not show.** What deep
# encoders do after long training on the paper's data sets: no GPU has run its tables here.

# %%
figure = plots.coordinates()
plots.save_figure(figure, "coordinates")
plt.show()

# %% [markdown]
# *Left: the logit of a candidate with cosine $s$, for blend weights $\lambda$ from InfoNCE (0) to the endpoint
# link (1), at $\tau = 0.5$, $\hat\beta = 2$. Right: its slope. InfoNCE pushes a candidate at cosine 0.999 no
# harder than one at 0.*
#
# The same with sliders, and beside it the probability that each of a dozen candidates wins. Below the shortfall $\delta = \beta\tau$
# the endpoint link is the steeper one: lower $\tau$, and this place moves to the cap; raise $d$, and the negatives move away from it.

# %%
plots.explorer()

# %% [markdown]
# ## The notebooks

# %% [markdown]
# | notebook | paper | what runs there |
# |---|---|---|
# | [01 · InfoNCE is the likelihood of a choice](01_plackett_luce.ipynb) | section 2.1, Equations 2.2 and 2.3 | softmax from Gumbel noise; InfoNCE as the likelihood of a choice; scores recovered from winners and rankings |
# | [02 · Extreme values: three limits for maxima](02_extreme_values.ipynb) | section 2.2.1, Equation 2.5, Appendix A | three limits for maxima and how fast; candidates that are not alike; the sphere |
# | [03 · Which link belongs to which tail?](03_link_functions.ipynb) | sections 2.2.2 and 2.2.3, Table 1, Theorem 2.4, Appendix B and C.3, Figures 1 and 2 | the link of each tail, exactly; what a wrong one costs at every temperature |
# | [04 · What a wrong link converges to](04_misspecification.ipynb) | section 2.2.2, Appendix C.1, Figure 5 | the noise floor of a wrong link; intervals that know about it |
# | [05 · The WEINCE loss, step by step](05_weince_loss.ipynb) | section 3, Equations 3.1 and 3.2, Algorithm 1, Appendix E | the loss step by step on a real batch; both limits; gradient; can the evidence say no? |
# | [06 · Train an encoder](06_train_vision.ipynb) | section 4.1, Appendix F | one SimCLR run from images to evaluated features; every setting a parameter |
# | [07 · Sentences: SimCSE with WEINCE](07_train_text.ipynb) | section 4.2 | one SimCSE run from sentences to correlation with human judgement |
# | [08 · Does the similarity tail have an endpoint?](08_tail_evidence.ipynb) | section 2.3.1, Figure 3 | peaks over threshold on frozen encoders |
# | [09 · Which link explains who wins?](09_link_selection.ipynb) | section 2.3.2, Figure 4, Appendix D (Tables 4 and 5, Figures 7 to 10) | softmax against blend on held-out winners; rivals without an endpoint; hard negatives |
# | [10 · Does the loss push where positives lose?](10_gradient_allocation.ipynb) | section 2.3.2, Appendix C.2, Figure 6 | where positives lose and where losses push, at every temperature |
# | [11 · Tables](11_tables.ipynb) | section 4.1, Tables 2, 3, 6 and 7, Appendix F | ours beside the paper's |
# | [12 · What drives the gain?](12_what_drives_the_gain.ipynb) | sections 4.1 and 4.2, Table 2 | which of the changes helps: the endpoint coordinate, a sharper softmax, or extra terms |
# | [13 · Beyond the blend: a loss with nothing to tune](13_beyond_the_blend.ipynb) | none | a family from the softmax to the endpoint; losses that set their own steepness, and the study that tests them; what orders all losses |
# | [14 · Appendix: the proof of the limit theorem, checked](14_proof_checks.ipynb) | Appendix A | appendix: the proof of the limit theorem, each step evaluated |

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
# | *theorem, checked on examples* | a mathematical statement that our examples bear out |
# | *measured here* | borne out as far as the claim goes |
# | *measured here, with limits* | borne out on less than it speaks of; the limits are named |
# | *does not hold here* | our numbers say otherwise, or rule out an effect of the size that would count |
# | *undecided here* | our interval allows both answers; what it would take is named |
# | *needs a GPU* | out of two cores' reach |
# | *description* | a definition or a procedure of the paper; our number would only check our own code |
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
measured_claims = [d for d in decisions if d.ours]
pd.DataFrame(
    {
        "claim": [f"{d.claim.label}: {d.claim.statement}" for d in measured_claims],
        "verdict": [d.verdict for d in measured_claims],
        "paper": [d.paper for d in measured_claims],
        "ours": [d.ours for d in measured_claims],
        "evidence": [d.evidence for d in measured_claims],
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

# %% tags=["checks", "hide-input"]
words = primary[primary["low"].notna()].groupby("contrast")["word"].agg(list)
assert set(words["lower temperature"]) == {"better", "undecided"}  # undecided: longer, probe
blend = primary[primary["contrast"] == "blend, each tuned on validation"]
assert set(blend.loc[blend["word"] == "better", "data"]) == {"CIFAR-10 (JPEG)"}
assert blend.loc[blend["word"] == "better", "difference"].between(0.4, 0.8).all()
assert "better" in words["both further losses"] and "worse" not in words["both further losses"]
assert not any("better" in word for word in words["own λ, not shuffled"])
assert measured_claims, "no claim has been decided yet; run `make reproduce`"
for d in decisions:
    assert d.verdict != "measured here, with limits" or d.limits, d.claim.id
    assert d.verdict not in ("undecided here", "needs a GPU") or d.needs, d.claim.id

# %% tags=["nbval-ignore-output"]
provenance()
