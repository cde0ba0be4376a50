# make demo: see it work.   make test: see that it works.   Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint setup bench clean

demo: setup
	$(BIN)/nora demo

test: lint
	$(BIN)/python -m pytest -n 2 $(PYTEST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

bench: setup
	$(BIN)/python benchmarks/exact.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
