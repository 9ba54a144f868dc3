# PYTHON=python3.13 chooses the interpreter of .venv; PYTEST_ARGS is handed to pytest.
PYTHON ?=
PYTEST_ARGS ?=

BIN := .venv/bin
CODE := $(wildcard src tests examples benchmarks scripts)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench certify clean system-packages

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with the pinned versions (PYTHON=python3.13 chooses the interpreter)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh

demo: setup ## Watch an agent being killed inside a tool call, and a new process finish the turn
	@$(BIN)/python examples/demo.py

test: setup system-packages check ## Everything that must hold: the checks, then the tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not alone" $(PYTEST_ARGS)
	@# What measures time has the machine to itself. 5: nothing was selected.
	$(BIN)/python -m pytest -m alone $(PYTEST_ARGS) || [ $$? -eq 5 ]

check: setup ## Format, lint, types, layers, generated files fresh
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --cache-dir .cache/import-linter
	$(BIN)/python scripts/generate_sync.py --check

format: setup ## Format the code, mend what the linter can, write the generated files anew
	$(BIN)/python scripts/generate_sync.py
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

bench: setup ## Measure growth, loads and commits, beside the raw driver
	$(BIN)/python -m benchmarks

certify: setup system-packages ## The tests with full-size campaigns of kills, faults and schedules; takes long
	LOCUS_CERTIFY=1 $(BIN)/python -m pytest --timeout 7200 $(PYTEST_ARGS)

clean: ## Remove .venv, caches and builds
	rm -rf .venv .cache build dist
	find src tests examples benchmarks scripts -name __pycache__ -type d -exec rm -rf {} +

system-packages:
	@bash scripts/system_packages.sh
