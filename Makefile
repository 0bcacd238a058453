# The companion's commands. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help reproduce test lint notebooks lab lock clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## */\1\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	@touch $@

reproduce: $(READY)  ## run the whole companion in the quick profile, then list claims and verdicts
	$(BIN)/snakemake --cores $(CORES) --quiet rules -- quick
	$(BIN)/weince claims

test: lint  ## lint, unit tests, notebook regression and drift checks
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist loadscope
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(CORES) --dist loadscope --nbval --nbval-current-env notebooks

lint: $(READY)  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(READY)  ## rebuild notebooks/*.ipynb from notebooks/source, executed in the quick profile
	$(BIN)/weince notebooks

lab: $(READY)  ## open the companion in JupyterLab
	cd notebooks && ../$(BIN)/jupyter lab 00_overview.ipynb

lock: $(READY)  ## write the installed versions to constraints.txt
	$(BIN)/weince lock

clean:  ## remove generated runs (the environment stays)
	rm -rf runs .snakemake
