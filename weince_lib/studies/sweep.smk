# Studies as Snakemake rules. The Snakefile takes them with
#     include: "weince_lib/studies/sweep.smk"
#
#     snakemake --cores 2 study-cpu-fashion                   two runs of one thread at a time
#     snakemake --cores 16 --resources gpu=2 study-paper-cifar10-resnet18
#     snakemake --cores 2 evidence-cpu-static                 tails of its encoders along training
#     snakemake --executor slurm --jobs 50 --default-resources slurm_account=A slurm_partition=P \
#         -- study-paper-cifar10-resnet18                     pip install 'weince-lib[cluster]'
#
# `weince plan STUDY` says beforehand what it costs, and afterwards what failed and why. A run that
# fails is tried again twice, from its last checkpoint; with --keep-going the others go on meanwhile.
# After a kill -9 or a power cut Snakemake still holds its lock: `snakemake --unlock`, then go on.
# Records are not outputs of these rules: Snakemake would delete them before a rerun. A run's output
# is a mark, and a run whose record exists makes its mark in a second.
import sys

from weince_lib.studies import collect, grid, study_evidence, sweep

MODULE = f"{sys.executable} -m weince_lib.studies.sweep"
STUDY_FOLDER = str(sweep.folder("{study}"))


rule study_run:
    output:
        STUDY_FOLDER + "/{key}.done",
    log:
        STUDY_FOLDER + "/{key}.log",
    wildcard_constraints:
        study="|".join(grid.STUDIES),
        key="[0-9a-f]{16}",
    retries: 2
    threads: lambda wildcards: grid.study(wildcards.study).cores
    resources:
        gpu=lambda wildcards: grid.study(wildcards.study).gpus,
        mem_mb=lambda wildcards, attempt: 8_000 * attempt * (4 if grid.study(wildcards.study).gpus else 1),
        # Minutes; a run stopped at its limit continues from its checkpoint at the next try.
        runtime=lambda wildcards: 2880 if grid.study(wildcards.study).gpus else 240,
    shell:
        "{MODULE} run {wildcards.study} {wildcards.key} > {log:q} 2>&1"


rule study_table:
    input:
        lambda wildcards: [sweep.mark(wildcards.study, run.key) for run in grid.study(wildcards.study).runs()],
    output:
        str(collect.table_path("{study}")),
    wildcard_constraints:
        study="|".join(grid.STUDIES),
    localrule: True
    shell:
        "{MODULE} collect {wildcards.study}"


for name in grid.STUDIES:

    rule:
        name:
            f"study-{name}"
        input:
            str(collect.table_path(name)),
        localrule: True


# Without outputs, so that they always run; what is there is found.
for name in grid.STUDIES:
    if grid.study(name).experiment == "text":

        rule:
            name:
                f"evidence-{name}"
            input:
                [sweep.mark(name, run.key) for run in study_evidence.evidence_runs(grid.study(name))],
            params:
                study=name,
            threads: grid.study(name).cores
            resources:
                gpu=grid.study(name).gpus,
            shell:
                "{MODULE} evidence {params.study}"


onerror:
    for name in grid.STUDIES:
        for note in sorted(sweep.folder(name).glob("*.failed")):
            print(f"failed in study {name}: {note.read_text(encoding='utf-8').strip()}", file=sys.stderr)
