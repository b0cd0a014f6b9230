# The one door: every target makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
FLAGS ?=
# a file's tests share fixtures, so one process runs them; many tests wait for others, so three share two cores,
# each with one thread: more threads than cores wait for each other; files come in the order of
# tests/conftest.py; what Python compiled is kept, whatever the environment says, for the many processes that
# tests start and for the next time
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile \
	--no-loadscope-reorder --ignore tests/browser
APT := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium
INSTALL_CHROMIUM := { [ "$$(id -u)" = 0 ] && { $(APT) || { apt-get update -qq && $(APT); }; } >/dev/null; }

.PHONY: demo install test test-browser pictures check format clean

demo: .venv/installed            ## the whole journey on digits: minutes on two CPU cores
	$(BIN)/semppl demo $(FLAGS)

install: .venv/installed         ## the environment alone

test: .venv/installed-dev        ## all tests but those of the browser
	$(PYTEST) $(FLAGS)

test-browser: .venv/installed-browser ## the report page in a headless Chromium
	$(BIN)/python -m pytest tests/browser $(FLAGS)

pictures: .venv/installed-browser ## of the page REPORT=runs/NAME/report.html, for the README
	$(BIN)/python docs/pictures.py $(REPORT) docs/results

check: .venv/installed-dev       ## everything that a change needs: format, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) $(FLAGS)

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

.venv/installed-browser: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[browser]"
	@command -v "$${CHROMIUM:-chromium}" >/dev/null || $(INSTALL_CHROMIUM) || { \
		echo "no Chromium: install it (Debian: apt-get install chromium), or name it in CHROMIUM" >&2; exit 2; }
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@
