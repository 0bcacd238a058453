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
PYTEST := $(BIN)/python -m pytest -q -n $(CORES) --dist loadscope
REGRESSION := WEINCE_RUNS=$(TESTED) WEINCE_FIGURES=$(TESTED)/figures $(PYTEST) \
	-p tests.notebooks.regression --nbval --nbval-current-env --nbval-cell-timeout 900

# Other machines as `make test-elsewhere` imitates them: without AVX-512, with the oldest kernels of
# oneDNN (convolutions and linear layers), and with two threads, which add in another order.
ELSEWHERE := avx2 sse41 threads
AS_avx2 := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1
AS_sse41 := ONEDNN_MAX_CPU_ISA=SSE41 OMP_NUM_THREADS=1
AS_threads := OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
# Tests whose numbers come from floating point; all others handle files, text, pages and processes.
NUMERIC := $(addprefix tests/,choice diagnostics evaluation evt integrations losses text vision)
# Notebooks that read encoders, and those that run networks at all: oneDNN does nothing in others.
ENCODERS := $(wildcard notebooks/05* notebooks/08* notebooks/09* notebooks/10*)
NOTEBOOKS_avx2 := notebooks
NOTEBOOKS_sse41 := $(ENCODERS) $(wildcard notebooks/06* notebooks/07*)
NOTEBOOKS_threads := $(NOTEBOOKS_sse41)

# Notebooks that read the collected table and write no records.
READERS := 00_overview 11_tables

.DEFAULT_GOAL := help
.PHONY: help reproduce test test-elsewhere test-encoders lint notebooks paper lab site lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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
	OMP_NUM_THREADS=1 $(PYTEST)
	rm -rf $(TESTED)
	OMP_NUM_THREADS=1 $(REGRESSION) notebooks

define elsewhere
$(if $(NUMERIC),$(AS_$(1)) $(PYTEST) -m "not slow" $(NUMERIC))
rm -rf $(TESTED)
$(AS_$(1)) $(REGRESSION) $(NOTEBOOKS_$(1))

endef
test-elsewhere: $(READY)  ## tests of numbers and notebooks, as other processors round (not: files, pages, commands, slow)
	$(foreach machine,$(ELSEWHERE),$(call elsewhere,$(machine)))

# What continuous integration has time for.
test-encoders: $(READY)  ## of these, the notebooks that read encoders as a processor without AVX-512 rounds
	$(MAKE) test-elsewhere ELSEWHERE=avx2 NUMERIC= NOTEBOOKS_avx2="$(ENCODERS)"

lint: $(READY)  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(READY)  ## rebuild notebooks/, figures/ and paper/results/ in the quick profile, to commit
	$(BIN)/weince notebooks $(filter-out $(READERS),$(basename $(notdir $(wildcard notebooks/source/*.py))))
	$(BIN)/weince collect --fresh --profile quick
	$(BIN)/weince notebooks $(READERS)

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
