# The companion's commands. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
BIN := $(abspath $(VENV))/bin
READY := $(VENV)/.ready
# Snakemake's rules call `weince` by name.
SNAKEMAKE := PATH="$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES) --quiet rules host reason --

# `make reproduce` leaves the committed results and figures alone: yours go under runs/.
OURS := $(CURDIR)/runs/reproduce
# Notebook regression makes its own runs, so that it tests training and not what lies in runs/.
TESTED := $(CURDIR)/runs/test

# Notebooks that read the collected table and write no records.
READERS := 00_overview 11_tables

.DEFAULT_GOAL := help
.PHONY: help reproduce test lint notebooks paper lab site lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; name one: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	@touch $@

reproduce: export WEINCE_RUNS := $(OURS)
reproduce: export WEINCE_RESULTS := $(OURS)/results
reproduce: export WEINCE_FIGURES := $(OURS)/figures
reproduce: $(READY)  ## run the whole companion in the quick profile, then say what was found and measured
	mkdir -p $(OURS)/results && cp -R paper/results/studies $(OURS)/results/  # hours of work: read, not rerun
	$(SNAKEMAKE) quick
	@$(BIN)/weince findings --profile quick --claims $(OURS)/claims.txt

test: lint  ## lint, unit tests, notebook regression and drift checks
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(CORES) --dist loadscope
	rm -rf $(TESTED)
	OMP_NUM_THREADS=1 WEINCE_RUNS=$(TESTED) WEINCE_FIGURES=$(TESTED)/figures $(BIN)/python -m pytest \
		-q -n $(CORES) --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout 900 notebooks

lint: $(READY)  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(READY)  ## rebuild notebooks/, figures/ and paper/results/ in the quick profile, to commit
	$(BIN)/weince notebooks $(filter-out $(READERS),$(basename $(notdir $(wildcard notebooks/source/*.py))))
	$(BIN)/weince collect --fresh --profile quick
	$(BIN)/weince notebooks $(READERS)
	$(BIN)/weince notebooks --headers

lab: $(READY)  ## open the companion in JupyterLab; PORT=9000 chooses a port
	$(BIN)/weince lab 00_overview $(if $(PORT),--port $(PORT)) $(LAB_OPTIONS)

site: $(READY)  ## build the static site under runs/site from the executed notebooks
	$(BIN)/weince site

paper: $(READY)  ## rebuild paper/companion.pdf from claims, results and figures, to commit
	$(BIN)/weince paper

lock: $(READY)  ## write the installed versions to constraints.txt
	$(BIN)/weince lock

clean:  ## remove generated runs (the environment stays)
	rm -rf runs .snakemake
