# make quickstart   set up, then run the example sweep      make test    set up, then every check
# make setup        the environment alone                   make check   the checks alone
# make bench        what kernels and training cost, beside peers; also benchmarks/results/*.json

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv/peers

.PHONY: quickstart test setup check bench lock

quickstart: setup
	$(BIN)/gridlaw run examples/quickstart.yaml

test: setup check

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

check:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench: setup
	$(BIN)/python -m benchmarks kernels step train
	$(MAKE) $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks peers fits

# The peers do not go together with the lock, so they have an environment of their own. One of them
# imports torch when it is built.
$(PEERS)/.ready: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check \
		-r benchmarks/requirements.txt --editable .
	SKIP_CUDA_BUILD=1 $(PEERS)/bin/pip install --quiet --disable-pip-version-check \
		--no-build-isolation fouroversix==1.0.5
	@touch $@

# Exact versions for every install; run after a change of the ranges in pyproject.toml.
# The "+cpu" of a CPU-only torch is dropped: the lock names the release, the index decides the build.
lock:
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --no-header --no-emit-options \
		--no-annotate --allow-unsafe \
		--upgrade-package torch==2.13.0 --upgrade-package triton==3.7.1 \
		--output-file requirements.lock pyproject.toml
	sed -i 's/+cpu$$//' requirements.lock
