# The one door: every target makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
FLAGS ?=

.PHONY: demo test check format clean

demo: .venv/installed            ## the whole journey on digits: minutes on two CPU cores
	$(BIN)/semppl demo $(FLAGS)

test: .venv/installed-dev        ## all tests
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(FLAGS)

check: .venv/installed-dev       ## everything that a change needs: format, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup $(FLAGS)

format: .venv/installed-dev      ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:                           ## remove the environment and caches; runs stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

.venv/made:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "semppl needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@
