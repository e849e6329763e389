# Everything a newcomer or CI runs. `make help` lists it.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PURE := not broker and not spark and not e2e
FAULTS := 300
HOST := spark
SEED :=
GAP := 3 15
BROKERS := 1
MINUTES := 120
KILLS := 1
TIMES := 5
FILES :=
NAME :=
OPTIONS :=

# Without compiled modules on disk each of some hundred processes compiles them anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-third test-all stress rotate check fmt unit sim bench bench-check compose-test chaos soak mutants wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## check what the machine has, install everything into .venv

$(STAMP): pyproject.toml deploy/preflight.sh
	@bash deploy/preflight.sh
	@test -x $(PY) || python3.11 -m venv $(VENV) || python3 -m venv $(VENV)
	@echo "installing into $(VENV): 1.5 GB with Spark, a few minutes the first time" >&2
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[demo,bench,dev]'
	@touch $(STAMP)

demo: setup ## the main job: real Kafka and Spark, one input lost for 15 s, exact in the end (about 2 minutes)
	@$(VENV)/bin/borealis demo --out demo

test: setup ## tests of every kind: lint, types, contracts, unit, property, simulation, Kafka, Spark, end to end
	@$(PY) -m tests.tiers test

test-slow: setup ## the tests that `make test` leaves out
	@$(PY) -m tests.tiers slow

test-third: setup ## a third of them, by rotation, and those about what has changed; CI runs `make test` and this
	@$(PY) -m tests.tiers third

test-all: test test-slow ## every test there is

stress: setup ## tests of real processes five times beside two busy loops a core; TIMES=20 FILES="tests/kafka/test_reader.py ..."
	@$(PY) -m tests.tiers stress --times $(TIMES) $(FILES)

rotate: setup ## once for each submission: choose the next third of the slow tests (.ci/rotation)
	@$(PY) -m tests.tiers rotate

check: setup ## lint, types, import contracts
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

fmt: setup ## format
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

unit: setup ## the tests that need neither Java nor a broker, in seconds
	@$(PY) -m pytest -n 2 --dist loadfile -m '$(PURE) and not sim'

sim: setup ## 200 simulated worlds
	@$(VENV)/bin/borealis sim --seeds 200

bench: setup ## figures of this machine, under 3 minutes; or of an experiment: NAME=chain OPTIONS="--short"
	@$(if $(NAME),$(PY) -m benchmarks $(NAME) $(OPTIONS),$(VENV)/bin/borealis bench quick)

bench-check: setup ## every experiment in short against docs/figures/check.json; fails where a ratio fell by a third
	@$(PY) -m benchmarks.report.check

compose-test: setup ## docker-compose.yml really run, broken and judged; needs Docker with Compose and 8 GB; BROKERS=3 and 10 GB
	@$(PY) -m tests.compose --brokers $(BROKERS)

chaos: setup ## real faults for a long time: FAULTS=300 SEED=... (default: a random one, printed), HOST=spark|process, GAP="3 15" seconds, BROKERS=3 (root)
	@$(PY) -m tests.chaos --faults $(FAULTS) --host $(HOST) --gap $(GAP) --brokers $(BROKERS) $(if $(SEED),--seed $(SEED))

mutants: setup ## change the code in some 1 800 places and see which changes no test notices; an hour or two, goes on where it was stopped
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[mutants]'
	@$(PY) -m tests.mutants

soak: setup ## hours with a kill a minute, judged by drift and audit: MINUTES=120 KILLS=1 (a minute) HOST=spark|process SEED=...
	@$(PY) -m tests.soak --minutes $(MINUTES) --kills $(KILLS) --host $(HOST) $(if $(SEED),--seed $(SEED))

wheel: ## a wheel in dist/: the commands, without the checkout; needs no set-up
	@rm -rf build # of an earlier one: a module deleted since would come back
	@pip=$$(mktemp -d) && trap 'rm -rf "$$pip"' EXIT \
		&& "$$(command -v python3.11 || echo python3)" -m venv "$$pip" \
		&& "$$pip/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

clean: ## remove what was installed and built
	rm -rf $(VENV) build dist mutants *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
