# One command each; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
UV_VERSION := 0.13.9
export UV_PYTHON_DOWNLOADS ?= never
# uv: the one on PATH, else one of our own in .uv/, put there by tools/get_uv.py.
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen --no-sync
READY := .venv/.ready
VERSION ?= v0.1.0
# Test files side by side, each process with control planes of its own; they wait a lot.
JOBS ?= 3

.PHONY: help setup assets format lint types layers docs-check check unit contract envtest node-test image-test image-test-full guest-test chaos-short test \
        chaos bench demo release changelog reference clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

.uv/bin/uv:
	@$(PYTHON) tools/get_uv.py $(UV_VERSION) .uv

$(READY): pyproject.toml uv.lock | $(filter .uv/bin/uv,$(UV))
	@$(UV) sync --frozen --quiet
	@touch $@

setup: $(READY) ## Install everything that Python needs, into .venv
	@true

assets: $(READY) ## Get etcd, kube-apiserver, Cluster API and their tools into the cache
	@$(RUN) kubelocal fetch

format: $(READY) ## Write the sources in their one form
	@$(RUN) ruff format
	@$(RUN) ruff check --fix --quiet

lint: $(READY) ## Form, lint and shell scripts
	@$(RUN) ruff format --check --quiet
	@$(RUN) ruff check --quiet
	@git ls-files '*.sh' .ci/run | xargs --no-run-if-empty $(RUN) shellcheck

types: $(READY) ## Types, strict
	@$(RUN) mypy

layers: $(READY) ## Imports go downward only
	@$(RUN) lint-imports --no-logo

docs-check: $(READY) ## No dead link, no generated page out of date, no unreadable changelog fragment
	@$(RUN) python tools/check_links.py
	@$(RUN) python -m capvco.release.reference --check docs/reference
	@said=$$($(RUN) towncrier build --draft --version $(VERSION) 2>&1) || { echo "$$said"; exit 1; }

check: lint types layers docs-check ## Everything that needs no test run
	@echo "check: all good"

unit: $(READY) ## Tests of pure code
	@$(RUN) pytest tests/unit -q

contract: $(READY) ## Tests of the client and the simulator, against each other and the vendor's file
	@$(RUN) pytest tests/contract -q

envtest: assets ## Tests against a real control plane
	@$(RUN) pytest tests/envtest -q

node-test: $(READY) ## Tests of the node's scripts with real containerd and nvidia-ctk
	@$(RUN) python -m tests.node.binaries
	@$(RUN) pytest tests/node -q

image-test: $(READY) ## Build, look at and boot images for GPU nodes, in QEMU (as root; half an hour without KVM)
	@$(RUN) python -m tests.image.host
	@$(RUN) pytest tests/image -q -m "not full"

guest-test: assets ## First boots of real workers, in QEMU (as root; a quarter of an hour without KVM)
	@$(RUN) python -m tests.guest.host
	@$(RUN) pytest tests/guest -q

chaos-short: assets ## Kills, cuts and lost answers, the short form
	@$(RUN) pytest tests/chaos -q -m "not full"

test: check assets ## check, then unit, contract, envtest and chaos in its short form
	@$(RUN) pytest tests/unit tests/contract tests/envtest tests/chaos -q -m "not full" -n $(JOBS) --dist loadfile

image-test-full: $(READY) ## An image with everything baked in, over the network
	@$(RUN) python -m tests.image.host
	@$(RUN) pytest tests/image -q -m full

chaos: assets ## Kills, cuts and lost answers, the long form
	@$(RUN) pytest tests/chaos -q --timeout 3600

bench: assets ## Measure the provider; ARGS="provider 1000", "capi 100", "idle"
	@$(RUN) python -m bench $(ARGS)

demo: assets ## A GPU pool comes up and goes down on a simulated cloud; ARGS=--keep leaves it running
	@$(RUN) capvco demo $(ARGS)

release: $(READY) ## Build the release assets into dist/
	@$(RUN) python -m capvco.release.build --output dist --version $(VERSION)

changelog: $(READY) ## Show what the next release will say that it changes
	@$(RUN) towncrier build --draft --version $(VERSION)

reference: $(READY) ## Write the generated pages of docs/reference
	@$(RUN) python -m capvco.release.reference docs/reference

clean: ## Remove what was built here; the cache of kubelocal stays
	@rm -rf .venv .uv dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
