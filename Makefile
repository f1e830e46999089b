# The same scripts run by hand, here and in CI. `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help install install-mcp-servers install-sandboxes install-browser start-docker stop-docker install-vllm quickstart
.PHONY: stack test test-all test-fast test-vllm lint types docs docs-serve docs-check certify smoke clean

VENV ?= .venv
VENV_VLLM ?= .venv-vllm
export VENV VENV_VLLM

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: ## make .venv with Turnwise and its development tools (PYTHON=python3.12 for another interpreter)
	@scripts/phase install scripts/install

install-mcp-servers: install ## MCP servers of others, from PyPI and npm, which the tests of our client use
	@scripts/phase install-mcp-servers scripts/install-mcp-servers

quickstart: install ## train a nano model on a game, evaluate it, write a report; minutes on two CPU cores
	@scripts/quickstart

stack: install install-vllm ## policy server, trainer, workers and TensorBoard as plain processes; Ctrl-C stops all
	@scripts/stack

test: install-sandboxes install-browser ## check everything; of the long tests, the shift of this commit (VLLM=0: without vLLM)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line types lint docs smoke install-mcp-servers install-vllm
	@scripts/phase tests scripts/with-docker scripts/test
	@scripts/phase vllm scripts/test-vllm

test-all: ## the same with every shift (SHIFT=2 make test: with that one)
	@SHIFT=all $(MAKE) --no-print-directory test

test-fast: install ## the tests that take seconds
	@SHIFT=core scripts/test -m "not slow"

install-sandboxes: ## bubblewrap and a Docker engine with apt-get, as root; what confines untrusted code
	@scripts/phase install-sandboxes scripts/install-sandboxes

install-browser: ## Chromium with apt-get, as root; for web tasks in a real browser
	@scripts/phase install-browser scripts/install-browser

start-docker: ## a Docker engine of our own, for sandboxes and their tests; as root
	@scripts/start-docker

stop-docker: ## stop that engine and remove all that it kept
	@scripts/stop-docker

install-vllm: ## make .venv-vllm with the CPU build of the real vLLM; 2.4 GB, two minutes
	@scripts/phase install-vllm scripts/install-vllm

test-vllm: install-vllm ## the tests that need the real vLLM
	@scripts/test-vllm

lint: install ## style and formatting (scripts/lint --fix mends)
	@scripts/phase lint scripts/lint

types: install ## mypy --strict
	@scripts/phase types scripts/typecheck

docs: install ## the documentation as a site in build/site; a warning is an error
	@scripts/phase docs scripts/docs

docs-serve: install ## the same on http://127.0.0.1:8000, built again whenever a page changes
	@scripts/docs --serve

docs-check: install ## links resolve, examples run, commands exist
	@scripts/docs-check

certify: install ## hold every registered environment to its contract
	@$(VENV)/bin/turnwise certify --all

smoke: install ## sdist, wheel, clean environment
	@scripts/phase smoke scripts/smoke

clean: ## remove what was built here; runs/ and .venv stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
