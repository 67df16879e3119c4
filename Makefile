# Needs Python >= 3.11 and make, nothing else. Variables: make serve PYTHON=python3.12 BUNDLE=... ARGS="--port 9000"
PYTHON ?= python3
VENV ?= .venv
# What `make serve` serves, all of bundles/ unless given, and what `make bundle` writes.
BUNDLE ?=
RECIPE ?= recipes/tatoeba-en-de.toml
CORPUS ?= data/tatoeba-en-de
SOURCE ?= en
TARGET ?= de
# Processes that run tests: half of the suite waits, for processes, sockets and clocks.
PROCESSES ?= 2
# More arguments for the command (make serve) or for pytest (make test).
ARGS ?=
# More arguments for pip. On Linux, PyPI's torch brings CUDA along; with PyTorch's CPU index it is a tenth of the size:
#   make test PIP_ARGS="--extra-index-url URL-OF-THE-CPU-INDEX"
PIP_ARGS ?=
# The container engine, and more arguments for `docker build`.
export DOCKER ?= docker
export COMPOSE ?= $(DOCKER) compose
BUILD_ARGS ?=

# Digests that `make pin` wrote.
-include .env

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS)

.DEFAULT_GOAL := help
.PHONY: help serve test check format train bundle bench lock audit sbom pin image containers clean

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

serve: $(VENV)/.serving ## Serve the shipped models on 127.0.0.1:8000
	$(BIN)/dragoman serve $(BUNDLE) $(ARGS)

test: $(VENV)/.everything ## Run the tests, but for exhaustive ones
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --durations 10 $(ARGS)

check: $(VENV)/.everything ## Formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.everything ## Rewrite the sources as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

train: $(VENV)/.everything ## Train the model of RECIPE
	$(BIN)/dragoman train $(RECIPE) $(ARGS)

bundle: $(VENV)/.everything ## Export CHECKPOINT as BUNDLE (out/en-de unless given)
	@test -n "$(CHECKPOINT)" || { echo "usage: make bundle CHECKPOINT=DIR [BUNDLE=DIR]" >&2; exit 2; }
	$(BIN)/dragoman export $(CHECKPOINT) --out $(or $(BUNDLE),out/$(SOURCE)-$(TARGET)) --precision int8 --calibration $(CORPUS)/train.$(SOURCE).gz \
	  --dev-source $(CORPUS)/dev.$(SOURCE).gz --dev-target $(CORPUS)/dev.$(TARGET).gz $(ARGS)

bench: $(VENV)/.everything ## Compare with CTranslate2 and transformers; fills docs/benchmarks.md (ARGS=--quick: a look)
	$(BIN)/python -m benchmarks.everything $(ARGS)

lock: $(VENV)/bin/python ## Renew the locked dependencies of the container image
	@$(PIP) uv
	for runtime in cpu gpu; do $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.12 \
	  --no-header --no-annotate --extra $$runtime pyproject.toml --output-file deploy/requirements/$$runtime.txt || exit 1; done
	echo 'setuptools>=77' | $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
	  - --output-file deploy/requirements/build.txt

audit: $(VENV)/.audit ## Look up the image's locked dependencies among known vulnerabilities
	for runtime in cpu gpu; do $(BIN)/pip-audit --strict --require-hashes --disable-pip --progress-spinner off \
	  --requirement deploy/requirements/$$runtime.txt || exit 1; done

sbom: $(VENV)/.audit ## Write what the image holds to out/sbom-*.json (CycloneDX)
	@mkdir -p out
	for runtime in cpu gpu; do $(BIN)/cyclonedx-py requirements deploy/requirements/$$runtime.txt \
	  --output-reproducible --of JSON --output-file out/sbom-$$runtime.json || exit 1; done

# Lines of .env: PYTHON_IMAGE=python:3.12-slim@sha256:... and so on, for compose and for `make image`.
pin: ## Write the digests of the base images' tags to .env
	@umask 077; { grep -svE '^(GRAFANA|NGINX|PROMETHEUS|PYTHON)_IMAGE=' .env; \
	  sed -nE 's/.*\$$\{([A-Z]+_IMAGE):-([^@}]+:[^@}]+)\}.*/\1 \2/p' docker-compose.yml | grep -v '^DRAGOMAN' | sort -u | \
	  while read -r name image; do \
	    digest=$$($(DOCKER) buildx imagetools inspect --format '{{.Manifest.Digest}}' "$$image") || exit 1; \
	    echo "$$name=$$image@$$digest"; \
	  done; } > .env.partial || { rm -f .env.partial; exit 1; }
	@cat .env.partial > .env && rm .env.partial && grep @sha256: .env

image: ## Build the container image dragoman:latest
	$(DOCKER) build --tag dragoman:latest $(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE="$(PYTHON_IMAGE)") --build-arg COMMIT="$$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" $(BUILD_ARGS) .

containers: image $(VENV)/.everything ## Build the image, bring it up with Prometheus, test both
	DRAGOMAN_TEST_CONTAINERS=1 $(BIN)/python -m pytest tests/container $(ARGS)

clean: ## Remove the virtual environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info build

# One environment, two stages: serving needs a tenth of what testing needs.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "dragoman needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed; Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.serving: pyproject.toml | $(VENV)/bin/python
	@echo "Installing what serving needs into $(VENV) ..."
	@$(PIP) --editable '.[cpu]'
	@touch $@

$(VENV)/.everything: pyproject.toml | $(VENV)/bin/python
	@echo "Installing everything (torch included) into $(VENV) ..."
	@$(PIP) --editable '.[cpu,train,export,bench,dev]'
	@touch $@ $(VENV)/.serving

$(VENV)/.audit: | $(VENV)/bin/python
	@$(PIP) 'pip-audit==2.10.1' 'cyclonedx-bom==7.5.0'
	@touch $@
