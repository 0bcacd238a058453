# The companion's commands. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(abspath $(BIN)):$(PATH)

# `make reproduce` leaves the committed results and figures alone: yours go under runs/.
OURS := $(CURDIR)/runs/reproduce
# Notebook regression makes its own runs, so that it tests training and not what lies in runs/.
TESTED := $(CURDIR)/runs/test

.DEFAULT_GOAL := help
.PHONY: help reproduce test lint notebooks lab lock clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## */\1\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	@touch $@

reproduce: export WEINCE_RUNS := $(OURS)
reproduce: export WEINCE_RESULTS := $(OURS)/results
reproduce: export WEINCE_FIGURES := $(OURS)/figures
reproduce: $(READY)  ## run the whole companion in the quick profile, then list claims and verdicts
	snakemake --cores $(CORES) --quiet rules host reason -- quick
	weince claims --profile quick

test: lint  ## lint, unit tests, notebook regression and drift checks
	OMP_NUM_THREADS=1 python -m pytest -q -n $(CORES) --dist loadscope
	rm -rf $(TESTED)
	OMP_NUM_THREADS=1 WEINCE_RUNS=$(TESTED) WEINCE_FIGURES=$(TESTED)/figures python -m pytest -q \
		-n $(CORES) --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout 900 notebooks

lint: $(READY)  ## ruff (lint and format) and mypy
	ruff check .
	ruff format --check .
	mypy

notebooks: $(READY)  ## rebuild notebooks/, figures/ and paper/results/ in the quick profile, to commit
	snakemake --cores $(CORES) --quiet rules host reason -- quick
	weince notebooks

lab: $(READY)  ## open the companion in JupyterLab
	cd notebooks && jupyter lab 00_overview.ipynb

lock: $(READY)  ## write the installed versions to constraints.txt
	weince lock

clean:  ## remove generated runs (the environment stays)
	rm -rf runs .snakemake
