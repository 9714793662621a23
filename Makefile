# Every target makes its own virtual environment; nothing is assumed but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2
OLDEST := .venv-oldest

.PHONY: help demo test test-slow test-oldest lint types layers doctest tests bench studies docs clean

help:
	@echo "make demo         fit every method to real data and draw the result (a minute or two)"
	@echo "make test         lint, types, import layers, doctests, tests"
	@echo "make test-slow    what needs a long run"
	@echo "make test-oldest  the tests with the oldest releases that pyproject.toml allows"
	@echo "make bench        measure against other libraries, side by side"
	@echo "make studies      run the studies on real data and write docs/results.md"
	@echo "make docs         build the pages of docs/ into docs/_build/html"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	touch $@

$(VENV)/.installed-dev: $(STAMP)
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(OLDEST)/.installed: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python tools/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt \
		--editable ".[all]" --group test
	touch $@

demo: $(STAMP)
	$(BIN)/python -m kronfill.demo

test: lint types layers doctest tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

layers: $(VENV)/.installed-dev
	$(BIN)/lint-imports

doctest: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --doctest-modules src tools README.md docs --doctest-glob="*.md" -q -n $(JOBS)

tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) -q

test-slow: $(VENV)/.installed-dev $(VENV)/.installed-docs
	$(BIN)/python -m pytest -m slow -q -n $(JOBS)

# What Numba compiled is kept apart: either environment would throw away that of the other.
# Left out for time: what is no part of the package, and statistics over hundreds of fits.
test-oldest: $(OLDEST)/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/numba $(OLDEST)/bin/python -m pytest -m "not slow" -n $(JOBS) -q \
		--ignore=tests/test_studies.py --ignore=tests/test_benchmarks.py \
		--ignore=tests/bounds/test_certificate.py

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

studies: $(STAMP)
	$(BIN)/python -m studies

# Warnings are errors, and all are shown. Pages of names that are gone must not stay behind.
docs: $(VENV)/.installed-docs
	rm -rf docs/api docs/_build
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(OLDEST) docs/_build docs/api .pytest_cache .mypy_cache .ruff_cache .hypothesis
