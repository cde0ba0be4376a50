# make demo: see it work.   make test: see that it works.   Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint setup docs bench fuzz soak clean

demo: setup
	$(BIN)/nora demo --force

test: lint
	$(BIN)/python -m pytest -n 2 $(PYTEST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

# Open site/index.html afterwards. The variable silences an announcement of the theme's makers.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: setup
	$(BIN)/python benchmarks/exact.py

# Random models on random graphs, each number compared with the definition.
TRIALS ?= 2000
SEED ?= 0
fuzz: setup
	PYTHONPATH=tests $(BIN)/python -m fuzz --trials $(TRIALS) --seed $(SEED)

# An hour of rough use: kills, full disks, clock jumps, two processes on one folder, counted.
MINUTES ?= 60
soak: setup
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m soak --minutes $(MINUTES) --seed $(SEED)

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache
