# The same scripts run by hand, here and in CI. `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help install quickstart test test-fast lint types docs-check certify smoke clean

VENV ?= .venv
export VENV

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: ## make .venv with Turnwise and its development tools (PYTHON=python3.12 for another interpreter)
	@scripts/install

quickstart: install ## train a nano model on a game, evaluate it, open the report; minutes on two CPU cores
	@scripts/quickstart

test: install lint types smoke ## everything that CI runs
	@scripts/test

test-fast: install ## the tests that take seconds
	@scripts/test -m "not slow"

lint: install ## style and formatting (scripts/lint --fix mends)
	@scripts/lint

types: install ## mypy --strict
	@scripts/typecheck

docs-check: install ## links resolve, examples run, commands exist
	@scripts/docs-check

certify: install ## hold every registered environment to its contract
	@$(VENV)/bin/turnwise certify --all

smoke: install ## sdist, wheel, clean environment
	@scripts/smoke

clean: ## remove what was built here; runs/ and .venv stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
