# The pipeline: which notebook, run and table needs which. `snakemake quick` makes the companion in the
# quick profile; records and executed notebooks go under runs/ (or $WEINCE_RUNS).
#
# A notebook that trains writes its record before it ends, so the executed notebook stands for both.
from weince_lib.experiments import SEEDS, paths

RUNS = paths.runs()
SOURCE = paths.notebooks() / "source"
EXECUTED = RUNS / "notebooks"
RESULTS = paths.results() / "quick.csv"
LOSSES = ("infonce", "weince")


TRAINED = expand(EXECUTED / "06_train_vision--loss={loss},seed={seed}.ipynb", loss=LOSSES, seed=SEEDS)


rule quick:
    input:
        EXECUTED / "00_overview.ipynb",
        EXECUTED / "05_weince_loss.ipynb",
        EXECUTED / "08_tail_evidence.ipynb",
        EXECUTED / "11_tables.ipynb",


rule train:
    input:
        SOURCE / "06_train_vision.py",
    output:
        EXECUTED / "06_train_vision--loss={loss},seed={seed}.ipynb",
    wildcard_constraints:
        loss="[a-z]+",
        seed="[0-9]+",
    threads: 1
    shell:
        "weince run 06_train_vision -p loss {wildcards.loss} -p seed {wildcards.seed} -o {output:q} > /dev/null"


rule loss:
    input:
        SOURCE / "05_weince_loss.py",
        EXECUTED / "06_train_vision--loss=infonce,seed=7.ipynb",
    output:
        EXECUTED / "05_weince_loss.ipynb",
    threads: 1
    shell:
        "weince run 05_weince_loss -o {output:q} > /dev/null"


rule tail:
    input:
        SOURCE / "08_tail_evidence.py",
        expand(EXECUTED / "06_train_vision--loss=infonce,seed={seed}.ipynb", seed=SEEDS),
    output:
        EXECUTED / "08_tail_evidence.ipynb",
    threads: 1
    shell:
        "weince run 08_tail_evidence -o {output:q} > /dev/null"


rule collect:
    input:
        TRAINED,
        EXECUTED / "05_weince_loss.ipynb",
        EXECUTED / "08_tail_evidence.ipynb",
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
        name="00_overview|11_tables",
    threads: 1
    shell:
        "weince run {wildcards.name} -o {output:q} > /dev/null"
