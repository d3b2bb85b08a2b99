# make demo: a first video.  make test: everything CI checks.  `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv demo test check format docs clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
VIDEO  ?= runs/demo.mp4
PROMPT ?= a hero in a red coat walks east through snow at night

# One thread a process: small models lose more to waiting threads than they win.
export OMP_NUM_THREADS ?= 1
# Nothing is downloaded behind a user's back, least of all by a test.
export HF_HUB_OFFLINE ?= 1

help:  ## say what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1 -- /' | column -t -s '--' 2>/dev/null \
	 || grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST)

venv: $(STAMP)  ## make .venv with streamgen and its tools (CPU build of torch where there is no GPU)

# Runs again only when what is installed could have changed.
$(STAMP): pyproject.toml setup.py requirements/constraints-cpu.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if nvidia-smi -L >/dev/null 2>&1; \
	 then echo "A GPU is present: pip chooses the build of torch."; $(BIN)/python -m pip install -q -e '.[dev]'; \
	 else echo "No GPU: the CPU build of torch, by requirements/constraints-cpu.txt."; \
	      $(BIN)/python -m pip install -q -c requirements/constraints-cpu.txt -e '.[dev]'; fi
	@touch $@

demo: venv  ## write a video from the bundled checkpoint and say where it is
	@mkdir -p $(dir $(VIDEO))
	@$(BIN)/streamgen video "$(PROMPT)" --seconds 6 --scale 6 -y -o $(VIDEO)
	@echo "Your video: $(abspath $(VIDEO))"

check: venv  ## format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## everything CI runs; ends with pytest's summary
	@command -v ffmpeg >/dev/null || { test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null; } || \
	 { echo "Installing ffmpeg for the piping tests."; \
	   { apt-get update -qq && apt-get install -y -qq --no-install-recommends ffmpeg; } >/dev/null 2>&1 || \
	   echo "ffmpeg could not be installed; its tests will be skipped."; }
	$(BIN)/python -m pytest -q --cov --cov-report=term --cov-fail-under=95

format: venv  ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: venv  ## build the documentation into build/site
	@$(BIN)/python -m pip install -q 'mkdocs>=1.6,<2' 'mkdocs-material>=9.6'
	$(BIN)/mkdocs build

clean:  ## remove what tools made, not .venv
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .import_linter_cache
