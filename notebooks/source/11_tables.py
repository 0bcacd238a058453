# %% [markdown]
# # 11 · Tables
#
# *Paper: Tables 2 and 3, section 4.1.*
#
# Ours beside the paper's, never mixed: the paper's numbers are read from `paper/reported/` (their `source`
# says whether the paper, its published version or the authors' released results give them), ours from the
# records collected in `paper/results/`. Ours are means over encoder seeds with a 95 % $t$-interval, probe and
# split seeds averaged within an encoder first, as in Appendix F. What data set and encoder a number belongs
# to is part of its row: the quick profile's are small digits, trained for a few epochs at a higher learning
# rate, in smaller batches and with milder crops than the paper's protocol, and decide nothing about CIFAR-100.

# %% tags=["parameters"]
profile = "quick"

# %%
import pandas as pd

from weince_lib.evaluation import paired_difference, t_interval
from weince_lib.experiments import load_reported, load_results, provenance
from weince_lib.experiments.claims import per_seed

reported = load_reported()
results = load_results(profile)
recalls = [f"recall_at_{k}" for k in (1, 2, 5, 10, 20, 50)]
ours = results[(results["experiment"] == "vision") & (results["split"] == "test")]
assert len(ours), f"no {profile} records collected yet; see `weince collect`"

# %% [markdown]
# ## Table 2 · linear accuracy (%)
#
# ### As the paper reports it


# %%
def with_interval(row):
    return f"{row['value']:.2f}" + (f" ± {row['ci95']:.2f}" if pd.notna(row["ci95"]) else "")


def papers_table(table, metrics):
    rows = reported[reported["table"].isin(table) & reported["metric"].isin(metrics)]
    rows = rows[rows["loss"].isin(["infonce", "weince"])]
    rows = rows.assign(shown=rows.apply(with_interval, axis=1))
    table = rows.pivot(
        index=["dataset", "encoder", "metric", "source"], columns="loss", values="shown"
    )
    return table.sort_index(level=[0, 1, 2, 3], key=by_k).fillna("")


def by_k(level):
    """Recalls in the order of k, not of the alphabet."""
    return level.map(recalls.index) if level.isin(recalls).all() else level


papers_table(["2"], ["linear_accuracy"])

# %% [markdown]
# ### Ours


# %%
def seeds_of(frame, loss, metric):
    return per_seed(frame[(frame["loss"] == loss) & (frame["metric"] == metric)])


def our_table(metrics):
    rows = []
    for (dataset, encoder), frame in ours.groupby(["dataset", "encoder"]):
        for metric in metrics:
            row = {"dataset": dataset, "encoder": encoder, "metric": metric}
            for loss in sorted(frame["loss"].unique()):
                values = seeds_of(frame, loss, metric)
                interval = t_interval(list(values.values()))
                row[loss] = f"{interval.mean:.2f} ± {interval.high - interval.mean:.2f}"
            pair = [seeds_of(frame, loss, metric) for loss in ("weince", "infonce")]
            difference = paired_difference(*pair)
            low, high = difference.interval.low, difference.interval.high
            row["weince − infonce, paired"] = (
                f"{difference.interval.mean:+.2f} [{low:+.2f}, {high:+.2f}]"
            )
            row["seeds"] = len(difference.seeds)
            rows.append(row)
    return pd.DataFrame(rows).set_index(["dataset", "encoder", "metric"])


our_table(["linear_accuracy"])

# %% [markdown]
# ## Table 3 · nearest-neighbour recall R@k (%)
#
# ### As the paper reports it

# %%
papers_table(["3", "7"], recalls)

# %% [markdown]
# ### Ours

# %%
our_table([*recalls, "knn_accuracy"])

# %% [markdown]
# The last column is what a comparison should rest on: both losses start from the same weights and see the
# same batches for a given seed, so the difference is taken within seeds. An interval that contains 0 says
# that this many seeds cannot tell the losses apart.

# %%
assert ours.groupby(["dataset", "encoder", "loss"])["seed"].nunique().min() >= 2
assert ours["value"].between(0, 100).all()

# %% tags=["nbval-ignore-output"]
provenance()
