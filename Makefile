# make demo: see it work.   make test: see that it works.   Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests start many processes: what Python has compiled once is kept, wherever this is set.
unexport PYTHONDONTWRITEBYTECODE
# And they share few cores: threads that wait for others sleep.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test pytest loops lint setup tables docs linkcheck dist matrix coverage bench fuzz soak docs-check clean

demo: setup
	$(BIN)/nora demo --force

# Both at once: type checking keeps one core busy, and tests that wait for others none.
test: setup
	@$(MAKE) --no-print-directory -j 2 lint pytest

# Neighbours stay on one worker until another has nothing to do: what a file's tests share is made once.
pytest: loops
	$(BIN)/python -m pytest -n 3 --dist worksteal $(PYTEST)

# Loops that Numba compiles are kept beside the code.
loops: setup
	$(BIN)/python -P .ci/loops.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python .ci/words.py

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

# What 'nora methods', 'models', 'datasets' and 'reproduce list' list without torch.
tables: setup
	$(BIN)/python .ci/tables.py

# Open site/index.html afterwards.
docs: setup
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -d build/doctrees -c docs . site

# Committed pages hold what committed results say: quick, and apart from the tests of code.
docs-check: setup
	$(BIN)/python -m pytest -q docs/checks

# Every address the pages link to, asked over the network.
linkcheck: setup
	$(BIN)/sphinx-build --quiet -b linkcheck -d build/doctrees -c docs . build/linkcheck

# The sdist and the wheel, in dist/.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

# The wheel in fresh environments: every Python, lowest and newest dependencies.
matrix: dist
	$(BIN)/python .ci/matrix.py

# Which lines and branches the tests reach; the lowest ten files first.
coverage: setup
	$(BIN)/python -m pytest -n 3 --dist worksteal --cov --cov-report= $(PYTEST)
	$(BIN)/python .ci/coverage.py

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
	rm -rf $(VENV) build dist site jupyter_execute .coverage .mypy_cache .ruff_cache .pytest_cache
