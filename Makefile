# make sweep   set up .venv, then tune and compare on the small UCI tables
# make test    set up .venv, then lint, types and all tests but the nightly ones
# make help    the rest

PYTHON ?= python3
VENV ?= .venv
# Three test processes (tests that start Ray mostly wait), each file in one of them: what its tests share
# is made once. Groups (xdist_group) have no effect with pytest 9.2 and pytest-xdist 3.8, but for the order
# of the files, which tests/conftest.py makes.
PYTEST_ARGS ?= -n 3 --dist loadfile --no-loadscope-reorder
ARGS ?=

BIN := $(VENV)/bin
export PYTHON VENV

.PHONY: help setup sweep test check lint docs nightly floors lock changelog clean

help:
	@echo 'make sweep [ARGS="--budget standard"]  tables of the suite uci-small, in runs/'
	@echo 'make test [PYTEST_ARGS="-k ledger"]    lint, types, all tests but the nightly ones'
	@echo 'make check                             format, lint, types (nothing is changed)'
	@echo 'make lint                              format the code and mend what can be mended'
	@echo 'make docs                              the documentation as a site, in build/docs/'
	@echo 'make nightly [ARGS="--against v0.2"]   the nightly benchmark, in nights/, then the slow tests'
	@echo 'make floors                            the tests with the lowest versions of pyproject.toml'
	@echo 'make setup | lock | changelog | clean  .venv | requirements.lock | CHANGELOG.md anew | remove .venv'
	@echo 'PYTHON=python3.12                      the interpreter that .venv is made with'

setup:
	@.ci/setup

sweep: setup
	$(BIN)/bench sweep --suite uci-small $(ARGS)

test: check
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

lint: setup
	$(BIN)/python tests/helpers/class_types.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Strict: a broken link, a page that no other names, or a docstring that is no reStructuredText is an error.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo 'build/docs/index.html'

# Both, whatever the first finds: a night of minutes, then tests of hours.
nightly: setup
	@code=0; $(BIN)/bench nightly $(ARGS) || code=$$?; \
	  $(BIN)/python -m pytest -m nightly || code=$$?; exit $$code

# All tests with the lowest versions that pyproject.toml allows, but the nightly ones and those of the lock alone.
floors:
	mkdir -p build
	$(PYTHON) .ci/floors.py > build/floors.txt
	VENV=build/floors REQUIREMENTS=build/floors.txt .ci/setup
	build/floors/bin/python -m pytest $(PYTEST_ARGS) -m 'not nightly and not locked'

# The newest versions that pyproject.toml allows, resolved in an environment of their own.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade '.[dev,dkl,docs,ebm,realmlp,server,sweep,tabicl,tabpfn,xrfm,zoo]' setuptools wheel
	{ sed -n '/^#/p' requirements.lock; \
	  build/lock/bin/python -m pip freeze --all --exclude pip --exclude tabsweep \
	    | sed -e 's/+[a-z0-9.]*$$//' -e ':a;s/^\([^=]*\)_/\1-/;ta' \
	      -e 's/^\(nvidia-nccl.*\)$$/\1 ; platform_system == "Linux"/'; } \
	  > build/lock/requirements.lock
	mv build/lock/requirements.lock requirements.lock
	rm -rf build/lock

# The fragments of changes/ as a section of CHANGELOG.md: make changelog VERSION=0.3.0
changelog: setup
	$(BIN)/python -m towncrier build --yes --version $(VERSION)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +
