# The same scripts run by hand, here and in CI. `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help install install-mcp-servers install-sandboxes install-browser start-docker stop-docker install-vllm quickstart
.PHONY: stack test test-fast test-vllm lint types docs-check certify smoke clean

VENV ?= .venv
VENV_VLLM ?= .venv-vllm
export VENV VENV_VLLM

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: ## make .venv with Turnwise and its development tools (PYTHON=python3.12 for another interpreter)
	@scripts/install

install-mcp-servers: install ## MCP servers of others, from PyPI and npm, which the tests of our client use
	@scripts/install-mcp-servers

quickstart: install ## train a nano model on a game, evaluate it, write a report; minutes on two CPU cores
	@scripts/quickstart

stack: install install-vllm ## policy server, trainer, workers and TensorBoard as plain processes; Ctrl-C stops all
	@scripts/stack

test: install install-sandboxes install-browser install-mcp-servers lint types smoke ## the tests, lint and types; with CI=1 also the long tests (VLLM=0: without the real vLLM)
	@scripts/with-docker scripts/test
	@scripts/install-vllm
	@scripts/test-vllm

test-fast: install ## the tests that take seconds
	@scripts/test -m "not slow"

install-sandboxes: ## bubblewrap and a Docker engine with apt-get, as root; what confines untrusted code
	@scripts/install-sandboxes

install-browser: ## Chromium with apt-get, as root; for web tasks in a real browser
	@scripts/install-browser

start-docker: ## a Docker engine of our own, for sandboxes and their tests; as root
	@scripts/start-docker

stop-docker: ## stop that engine and remove all that it kept
	@scripts/stop-docker

install-vllm: ## make .venv-vllm with the CPU build of the real vLLM; 2.4 GB, two minutes
	@scripts/install-vllm

test-vllm: install-vllm ## the tests that need the real vLLM
	@scripts/test-vllm

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
