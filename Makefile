# Needs Python 3.11 or newer, make and bash. Everything else goes into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
STAMP  := $(VENV)/.installed
SHELL  := bash

.PHONY: run test test-pythons test-cluster cluster soak lint docs house lock clean

# The packages of a lock, one line of progress each. They are compiled when they are first imported.
define install
@echo "Installing the packages of $(1) into $(VENV):"
@set -o pipefail; $(BIN)/pip install --disable-pip-version-check --progress-bar off --no-compile --no-deps --require-hashes -r $(1) | \
  awk -v all="$$(grep -c '^[^ ]*==' $(1))" '/^(Collecting|Processing|Ignoring|Requirement)/ { name = $$1 == "Requirement" ? $$4 : $$2; sub(".*/", "", name); printf "\r%4d of %d: %-50.50s", ++n, all, name; fflush() } END { print "" }'
endef

# What running needs.
$(READY): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; call make PYTHON=python3.12")'
	@echo "Making an environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	$(call install,requirements-run.lock)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The rest: tools for tests, checks and docs.
$(STAMP): requirements.lock requirements-run.lock pyproject.toml
	@$(MAKE) --no-print-directory $(READY)
	$(call install,requirements.lock)
	@touch $@

# Its first start compiles what it imports, for all later ones.
run: export PYTHONDONTWRITEBYTECODE =

run: $(or $(wildcard $(STAMP)),$(READY))  ## start the reconciler on the embedded API server with sample slices and claims, show the allocations, end
	$(BIN)/dra-reconciler demo

# Tests start the program over a hundred times: without bytecode each of these processes compiles all of it again.
test soak: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n auto

test-pythons:  ## the test suite with each Python from 3.11 on that is installed, and with the oldest NumPy on each; says what is missing
	MAKE="$(MAKE)" tests/tools/every_python.sh

cluster:  ## a throw-away cluster by kind or k3d with fake devices and our chart; without them, say what is missing
	deploy/try-cluster.sh

# The current context of KUBECONFIG, unless DRA_RECONCILER_TEST_CONTEXT names one. What is made there is deleted again.
test-cluster: $(STAMP)  ## end-to-end tests on a real cluster; CONTRIBUTING.md has more variables
	@context="$${DRA_RECONCILER_TEST_CONTEXT:-$$(kubectl config current-context)}" && [ -n "$$context" ] || \
	  { echo "No cluster: name a context in DRA_RECONCILER_TEST_CONTEXT, or call kubectl config use-context" >&2; exit 1; }; \
	DRA_RECONCILER_TEST_CONTEXT="$$context" $(BIN)/python -m pytest tests/whole/any_cluster tests/whole/real_cluster_only

# Of a run that found something, FIRST and the seed that it names give the same schedules again.
FIRST     ?= 100000
SCHEDULES ?= 5000
EXAMPLES  ?= 35

soak: $(STAMP)  ## thousands of simulated schedules that `make test` does not have, and properties on many times more examples
	$(BIN)/python -m tests.tools.simulation --first $(FIRST) --schedules $(SCHEDULES)
	for kind in sockets pair gangs moves bursts announced; do \
	  $(BIN)/python -m tests.tools.simulation --first $(FIRST) --schedules $$(( $(SCHEDULES) / 10 )) --kind $$kind || exit 1; \
	done
	$(BIN)/python -m tests.tools.room_twin --first $(FIRST) --cases $$(( 2 * $(SCHEDULES) ))
	$(BIN)/python -m tests.tools.hard_twin --first $(FIRST) --cases $$(( 2 * $(SCHEDULES) / 5 ))
	$(BIN)/python -m tests.tools.hard_groups --first $(FIRST) --cases $$(( 2 * $(SCHEDULES) / 5 ))
	$(BIN)/python -m tests.tools.mutations --first $(FIRST) --cases $$(( 2 * $(SCHEDULES) ))
	if git cat-file -e e828765f 2>/dev/null; then $(BIN)/python -m tests.tools.releases; else echo "Releases: not in this clone"; fi
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n auto -m hypothesis
	EXAMPLES=2 $(BIN)/python -m pytest -n auto tests/unit/{api/convert/test_equivalence,api/versions/test_tree,cli/test_convert,control/test_batch,control/test_early_names,analysis/relocation/test_hard_groups}.py
	SIZE=full $(BIN)/python -m pytest -n auto tests/whole/{clients/test_clients,hostile/test_server,status_port/test_mutated_requests,deploy/test_installed}.py tests/whole/{perf,kubectl,rights}

lint: $(STAMP)  ## what CI checks besides the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

house: $(STAMP)  ## how large the code is, for each room
	$(BIN)/python -m tests.tools.house

docs: $(STAMP)  ## the pages and pictures that are made from the code
	for page in settings logs metrics reasons; do $(BIN)/python -m docs.pages $$page > docs/$$page.md; done
	$(BIN)/python -m docs.pictures
	$(BIN)/python -m docs.chart_values
	$(BIN)/python -m docs.version_tables
	$(BIN)/python -m docs.third_party > deploy/THIRD-PARTY.md
	$(BIN)/python -m perf page perf/kept/*.json > perf/RESULTS.md
	$(BIN)/python -m docs.main_results

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

lock:  ## write requirements.lock afresh from pyproject.toml, and what `make run` and the image need of it (needs uv)
	$(COMPILE) --extra dev --extra otel --extra perf --extra sweep pyproject.toml -o requirements.lock
	printf 'hatchling\neditables\n' | $(COMPILE) --constraint requirements.lock pyproject.toml - -o requirements-run.lock
	$(COMPILE) --extra otel --constraint requirements.lock pyproject.toml -o deploy/requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
