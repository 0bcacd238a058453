# The pipeline: which notebook, run and table needs which. `snakemake quick` makes the companion in the
# quick profile; records and executed notebooks go under runs/ (or $WEINCE_RUNS).
#
# Notebooks that look at encoders read the committed ones and wait for no training. 06_train_vision trains
# one encoder of each loss; `weince retrain` measures these two beside the committed ones.
#
# A notebook writes its record before it ends, so the executed notebook stands for both.
from weince_lib.experiments import SEEDS, paths

RUNS = paths.runs()
SOURCE = paths.notebooks() / "source"
EXECUTED = RUNS / "notebooks"
RESULTS = paths.results() / "quick.csv"
RETRAINED = paths.results() / "retrained.csv"
LOSSES = ("infonce", "weince")
# Notebooks that write records.
NOTEBOOKS = (
    "01_plackett_luce",
    "02_extreme_values",
    "03_link_functions",
    "04_misspecification",
    "05_weince_loss",
    "07_train_text",
    "08_tail_evidence",
    "09_link_selection",
    "10_gradient_allocation",
    "14_proof_checks",
)
# Committed tables that such notebooks read. The pipeline of a study makes its table anew; here the one
# that is there counts, whatever its age.
TABLES = {
    "07_train_text": (
        paths.results() / "studies" / "cpu-static.csv",
        paths.root() / "paper" / "reported" / "reported.csv",
    ),
}
# Notebooks that read the table.
READERS = ("00_overview", "11_tables", "12_what_drives_the_gain", "13_beyond_the_blend")

TRAIN = str(EXECUTED / "06_train_vision--loss={loss},seed={seed}.ipynb")


rule quick:
    input:
        expand(EXECUTED / "{name}.ipynb", name=READERS),
        RETRAINED,


rule train:
    input:
        SOURCE / "06_train_vision.py",
    output:
        TRAIN,
    wildcard_constraints:
        loss="[a-z]+",
        seed="[0-9]+",
    threads: 1
    shell:
        "weince run 06_train_vision -p loss {wildcards.loss} -p seed {wildcards.seed} -o {output:q} > /dev/null"


rule retrain:
    input:
        expand(TRAIN, loss=LOSSES, seed=SEEDS[0]),
    output:
        RETRAINED,
    params:
        seed=SEEDS[0],
    threads: 1
    shell:
        "weince retrain --seed {params.seed} > /dev/null"


rule notebook:
    input:
        SOURCE / "{name}.py",
        lambda wildcards: [ancient(path) for path in TABLES.get(wildcards.name, ())],
    output:
        EXECUTED / "{name}.ipynb",
    wildcard_constraints:
        name="|".join(NOTEBOOKS),
    threads: 1
    shell:
        "weince run {wildcards.name} -o {output:q} > /dev/null"


rule collect:
    input:
        expand(TRAIN, loss=LOSSES, seed=SEEDS[0]),
        expand(EXECUTED / "{name}.ipynb", name=NOTEBOOKS),
    output:
        RESULTS,
    shell:
        "weince collect --fresh --profile quick"


rule read_results:
    input:
        SOURCE / "{name}.py",
        RESULTS,
    output:
        EXECUTED / "{name}.ipynb",
    wildcard_constraints:
        name="|".join(READERS),
    threads: 1
    shell:
        "weince run {wildcards.name} -o {output:q} > /dev/null"


# Studies: `snakemake study-NAME`; `weince plan` lists them.
include: "weince_lib/studies/sweep.smk"
