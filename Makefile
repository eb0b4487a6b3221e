# Two commands do everything: `make run` and `make test`. Both set up .venv first.
PYTHON ?= python3
# A plain `torch` may pull several GB of CUDA; another build: make run TORCH='torch==2.14.1'
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup run test lint coverage bench clean

help:            ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(READY)  ## make .venv with ffsim, torch and the development tools

$(READY): pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -U pip
	$(BIN)/python -m pip install -q '$(TORCH)' -e '.[train,dev]'
	$(BIN)/ffsim driver install
	touch $@

run: $(READY)    ## pull the dataset, run the pipeline, print what it says
	$(BIN)/dvc pull -q data
	$(BIN)/dvc repro
	@$(BIN)/ffsim status

test: $(READY)   ## format, lint, types and the tests with coverage
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered --cov-fail-under=85

bench: $(READY)  ## the benchmarks (minutes)
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:           ## remove what can be made again; the dataset, runs/ and .venv stay
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage dist
