# Every target does its own set-up. `make help` prints what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
CACHE := $(or $(TENANTRY_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tenantry)
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
PINS := requirements/dev.txt
# One has the tests that share the session's cluster, which mostly wait; the others have the rest.
WORKERS ?= 2

.PHONY: help setup demo demo-engine test check lint types arch unit format crds pins \
        cluster-up cluster-down cluster-status wheel e2e bench bench-real bench-smoke oracle clean

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | \
	  awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## make .venv with every part and the CPU engine

$(VENV)/.ready: pyproject.toml $(PINS) scripts/setup.sh
	@PYTHON="$(PYTHON)" UV_VERSION="$(UV_VERSION)" CACHE="$(CACHE)" bash scripts/setup.sh "$(VENV)" "$(PINS)"
	@touch $@

demo: setup ## the main job, end to end, on a local cluster without a GPU: table, picture, verdict
	@$(BIN)/python -m e2e.demo

demo-engine: setup ## the same table from `tenantry serve` alone, without Kubernetes
	@$(BIN)/python -m e2e.demo --engine-only

test: setup ## everything that tests, on real components
	@$(BIN)/python -m e2e.prepare
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not gpu and not kind"

check: lint types arch unit ## what every commit keeps green

lint: setup ## ruff: style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy, strict, over everything
	@$(BIN)/mypy

arch: setup ## import-linter: which way the arrows point
	@$(BIN)/lint-imports

unit: setup ## the tests that need no engine and no cluster
	@$(BIN)/python -m pytest -q -m "not engine and not cluster and not gpu and not kind"

format: setup ## write what `lint` asks for
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

crds: setup ## write crds/*.yaml from the types
	@$(BIN)/python -m tenantry_api.crd

pins: setup ## resolve pyproject.toml anew into requirements/
	@uv="$$(command -v uv || echo $(CACHE)/uv/bin/uv)"; "$$uv" pip compile -q pyproject.toml --all-extras --group dev \
	  --python-version 3.11 --no-emit-index-url --no-annotate --upgrade -o $(PINS)

cluster-up: setup ## start the local cluster: NODES=2 GPUS=4 (per node); prints the KUBECONFIG path
	@$(BIN)/python -m e2e.cluster up $(if $(NODES),--nodes "$(NODES)") $(if $(GPUS),--gpus "$(GPUS)")

cluster-down: setup ## stop it; nothing is left running
	@$(BIN)/python -m e2e.cluster down

cluster-status: setup ## is it up, and where
	@$(BIN)/python -m e2e.cluster status

wheel: setup ## build dist/*.whl
	@rm -rf dist && "$$(command -v uv || echo $(CACHE)/uv/bin/uv)" build -q --wheel -o dist && ls dist/*.whl

e2e: setup ## the cluster suite on the cluster that KUBECONFIG names, or on the local one
	@$(BIN)/python -m e2e.prepare
	@$(BIN)/python -m pytest -m "cluster and not gpu and not kind"

bench: setup ## every gate on the simulator, within an hour, into docs/results.md: DATA=DIR ONLY=... SEEDS=... FRESH=1
	@$(BIN)/python -m tenantry_bench.gates $(if $(DATA),--data "$(DATA)") \
	  $(if $(ONLY),--only "$(ONLY)") $(if $(SEEDS),--seeds "$(SEEDS)") $(if $(FRESH),--fresh)

bench-real: setup ## what weights are worth on the real engine: six minutes on a quiet machine
	@$(BIN)/python -m pytest -q -p no:xdist --log-cli-level=info engine/tenantry_engine/tests/measure_real_shares.py

bench-smoke: setup ## the small table, within minutes
	@$(BIN)/python -m tenantry_bench.gates --smoke --page docs/results.md --build build/bench/smoke

oracle: setup ## greedy tokens of the real engine with our scheduler, without it, and with a control
	@$(BIN)/python -m tenantry_engine.tests.oracle

clean: ## remove what the targets above made in the checkout
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
