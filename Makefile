# `make up` starts the bus and `make test` passes on a fresh machine: everything they need is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE # where it is set, each run of the tests would compile all of them again, twice
.PHONY: help browser up test quick check generate reading bench smoke torture short-torture year clients lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.run: requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) …"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --require-hashes -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src  # clients wait for hooks, which start three times as fast with compiled modules
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	@$(PIP) install --require-hashes -r requirements/bench.txt
	@touch $@

# LightRAG brings 300 MB of packages, and is used by an adapter only: it has an environment of its own.
$(VENV)/.rag: requirements/rag.txt $(VENV)/.run
	@test -x $(VENV)/rag/bin/python || $(PYTHON) -m venv $(VENV)/rag
	@echo "installing LightRAG into $(VENV)/rag …"
	@for file in run rag; do $(VENV)/rag/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes \
	  -r requirements/$$file.txt || exit 1; done
	@touch $@

up: $(VENV)/.run ## start the bus on this repository and print a link to its page
	@$(BIN)/engrambus up

browser: ## install Chromium for the page's tests, if it is missing and may be installed
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium …"; export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq >/dev/null; apt-get install -y -qq chromium >/dev/null && exit 0; fi; \
	echo "No Chromium here, and none was installed: the tests of the page are skipped, and fail in CI."

test: $(VENV)/.dev $(VENV)/.rag browser ## run all tests
	@$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(VENV)/.dev ## run the fast tests, in under two minutes
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not clients and not slow'

generate: $(VENV)/.dev ## rewrite the generated files (lazy imports, command table, client methods, skill, plugin)
	@$(BIN)/python tools/generate.py

reading: $(VENV)/.dev ## measure names, docstrings and comments against their targets
	@$(BIN)/python tools/reading.py --check

check: $(VENV)/.dev ## format, lint, types, layers, reading targets, documentation examples
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/python tools/reading.py --check
	@$(BIN)/python -m pytest tests/docs

bench: $(VENV)/.bench ## measure performance (writes docs/performance.md)
	@$(BIN)/python -m bench

year: $(VENV)/.dev ## a year of work on a turned clock, ten tasks of each kind a day, with what it cost (`make test` has a short version)
	@ENGRAMBUS_YEAR=10 $(BIN)/python -m pytest -s tests/guardrails/test_year.py

torture: $(VENV)/.dev ## kills, power cuts, disk errors, damaged files, mixed load and random requests, for two hours (`make test` has a short version)
	@ENGRAMBUS_CRASH_ROUNDS=60 $(BIN)/python -m pytest -s tests/crash
	@ENGRAMBUS_EXAMPLES=10 ENGRAMBUS_MACHINE_EXAMPLES=400 $(BIN)/python -m pytest --timeout=7200 -n 2 $(RANDOM)
	@$(BIN)/python -m tests.torture

RANDOM = tests/http/test_fuzz.py tests/knowledge tests/code tests/backends tests/space/test_state_machine.py \
  tests/space/test_batch_machine.py tests/limits/test_budget_machine.py

ROUNDS = 50
short-torture: $(VENV)/.dev ## the same with 50 cases of each part and two minutes of load, and what the torture does not go through yet
	@ENGRAMBUS_CRASH_ROUNDS=10 $(BIN)/python -m pytest -q tests/crash
	@$(BIN)/python -m tests.torture --rounds $(ROUNDS) --minutes 2
	@$(BIN)/python -m tests.torture.untried

NPM = npm install --prefix $(VENV)/clients --no-save --no-package-lock --no-audit --no-fund --loglevel=error
clients: $(VENV)/.dev ## test with the real Claude Code, Codex and Gemini CLI and a scripted model (large downloads)
	@mkdir -p $(VENV)/clients
	@! command -v npm >/dev/null || { echo "installing the newest clients into $(VENV)/clients …"; \
	  $(NPM) $(addsuffix @latest,@anthropic-ai/claude-code @openai/codex @google/gemini-cli); } || \
	  echo "npm did not bring them: those that are there are tried."
	@$(BIN)/python -m pytest -m clients -rs tests/integrations/live

smoke: $(VENV)/.dev ## test the built wheel in a bare environment
	@$(BIN)/python tests/smoke.py

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: $(VENV)/.dev ## recompile the hashed requirement files from pyproject.toml
	@$(COMPILE) $(UPGRADE) pyproject.toml --output-file requirements/run.txt
	@for group in build dev bench rag; do $(COMPILE) $(UPGRADE) --group $$group --constraint requirements/run.txt \
	  $$(test $$group != bench || echo --no-strip-extras) --output-file requirements/$$group.txt || exit 1; done

clean: ## remove everything the targets made (never .catalog)
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
