# What a clean clone needs: Python 3.11 to 3.13, Java 17 or newer, Maven. `make test` does everything.
#   make setup   .venv with both distributions and the development tools, and Kafka's jars; quick when done
#   make lint    ruff, mypy, import-linter
#   make test    setup, lint, and every test, on a real Kafka that the tests start and stop
#   make format  let ruff format the code
#   make chaos FOR=seconds SEED=n   kills, freezes and restarts at random on a real Kafka, then judgement and figures
#   make simulate HOURS=hours SEED=n   that many simulated hours under faults, then judgement and figures; JOBS=2 processes
#   make bench   latency at 500 runs/s, and the highest rate held for 60 s, on a Kafka of its own; some 10 minutes
#   make demo    everything at work, in the terminal, until Ctrl-C; FOR=40 ends by itself; PORTS=free chooses free ports

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DELETE_ON_ERROR:
.PHONY: setup lint test format bench chaos demo simulate

setup: $(INSTALLED)
	@$(BIN)/horologd kafka fetch

# Touched last, so that an installation that failed half-way is done again.
$(INSTALLED): pyproject.toml connectors/sdk/pyproject.toml Makefile
	@python="$$(sh .ci/find-python)" && { $(BIN)/python -c '' 2>/dev/null || "$$python" -m venv --clear $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e connectors/sdk -e '.[dev]'
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

format: setup
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks.bench_e2e $(BENCH)

demo: setup
	@$(BIN)/horologd demo $(if $(FOR),--for $(FOR)) $(if $(filter free,$(PORTS)),--free-ports)

chaos: setup
	$(BIN)/python -m tests.chaos.run --for $(or $(FOR),120) --seed $(or $(SEED),1)

simulate: setup
	$(BIN)/python -m tests.simulation.run --hours $(or $(HOURS),1000) --seed $(or $(SEED),1) --jobs $(or $(JOBS),1) $(if $(RESULTS),--results $(RESULTS))
