# Everything a newcomer types. Needs Python 3.11 or newer, make and a network, nothing else:
# the first command that wants an environment makes .venv and installs into it; later ones reuse it.

CANDIDATES := python3 python3.13 python3.12 python3.11 python3.14 python
PYTHON ?= $(shell for name in $(CANDIDATES); do \
	$$name -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
	2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
PARITY_VENV := .venv-parity
WILD_VENV := .venv-wild
WILD_TORCH_VENV := .venv-wild-torch
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2

.PHONY: help demo test slow lint parity conformance arm wild wild-pytorch bench curves stubs clean

help:
	@echo "make demo    train the MNIST network on the images in the repository, write demo.png"
	@echo "make test    run the test-suite (no PyTorch needed)"
	@echo "make lint    ruff, the layers of the package, the type checker"
	@echo "make parity  compare with torch==2.13.0, installed in $(PARITY_VENV)"
	@echo "make slow    programs of every operator and of random graphs, by the thousand"
	@echo "make arm     operators, emitted kernels and compiled steps on aarch64, under qemu-user"
	@echo "make wild    run libraries and their tests on flambeau and on PyTorch: docs/libraries.md"
	@echo "make wild-pytorch   run samples of PyTorch's own tests: docs/pytorch_tests.md"
	@echo "make bench   measure flambeau beside PyTorch and JAX, and put the figures into the docs"
	@echo "make curves  draw the loss curves of both into docs/parity.png"
	@echo "make stubs   write the generated .pyi files anew"
	@echo "make clean   remove the environments and caches"

# ---- environments: one stamp per extra, made again when pyproject.toml changes ----

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "flambeau needs Python 3.11 to 3.14 with its venv module" \
	  "(on Debian or Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	@echo "Installing flambeau and its extra '$*' into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --editable '.[$*]'
	@touch $@

# PyTorch lives apart from .venv, so that nothing can lean on it by accident. A plain index serves
# CUDA builds of several GB on Linux; a CPU wheel found through pip's own configuration is enough.
$(PARITY_VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "flambeau needs Python 3.11 to 3.14" >&2; exit 1; }
	@echo "Installing torch==2.13.0 and flambeau into $(PARITY_VENV)"
	@test -x $(PARITY_VENV)/bin/python || $(PYTHON) -m venv $(PARITY_VENV)
	@$(PARITY_VENV)/bin/python $(PIP_INSTALL) --editable '.[test,parity,bench]'
	@touch $@

# Libraries, with flambeau's alias as the only torch; and the same ones seen from an environment
# that has PyTorch (for the CPU) and its own torchvision before them.
$(WILD_VENV)/.ready: pyproject.toml tests/wild/requirements.txt
	@test -x $(WILD_VENV)/bin/python || $(PYTHON) -m venv $(WILD_VENV)
	@$(WILD_VENV)/bin/python $(PIP_INSTALL) --editable '.[gloo]'
	@$(WILD_VENV)/bin/flambeau alias install
	@$(WILD_VENV)/bin/python $(PIP_INSTALL) --requirement tests/wild/requirements.txt \
	  --constraint $$($(WILD_VENV)/bin/python -c "import glob, sysconfig; \
	  print(glob.glob(sysconfig.get_path('purelib') + '/torch-*.dist-info/constraints.txt')[0])")
	@$(WILD_VENV)/bin/python $(PIP_INSTALL) --no-deps torchvision==0.28.0
	@touch $@

$(WILD_TORCH_VENV)/.ready: $(WILD_VENV)/.ready
	@test -x $(WILD_TORCH_VENV)/bin/python || $(PYTHON) -m venv $(WILD_TORCH_VENV)
	@$(WILD_TORCH_VENV)/bin/python $(PIP_INSTALL) --index-url $(TORCH_INDEX) \
	  torch==2.13.0 torchvision==0.28.0
	@$(WILD_TORCH_VENV)/bin/python $(PIP_INSTALL) expecttest==0.3.0 hypothesis==6.170.17
	@$(WILD_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	  > $$($(WILD_TORCH_VENV)/bin/python -c "import sysconfig; \
	  print(sysconfig.get_path('purelib') + '/zz_wild.pth')")
	@touch $@

# ---- what to run ----

demo: $(VENV)/.with-demo
	@$(BIN)/flambeau examples/mnist.py --picture demo.png
	@echo "Next: flambeau your_script.py ($(BIN)/flambeau), or flambeau check your_script.py, which runs nothing;"
	@echo "      flambeau --profile examples/mlp.py --epochs 1 shows where time goes; examples/ has more programs."

test: $(VENV)/.with-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not parity" $(TESTS)

lint: $(VENV)/.with-lint
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

parity: $(PARITY_VENV)/.ready
	$(PARITY_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m "parity or slow" --ignore=tests/compiler $(TESTS)

slow: $(VENV)/.with-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow tests/compiler

conformance: $(PARITY_VENV)/.ready
	$(PARITY_VENV)/bin/python .ci/conformance

arm:
	.ci/arm

wild: $(WILD_TORCH_VENV)/.ready
	$(WILD_VENV)/bin/python tests/wild/libraries.py --flambeau $(WILD_VENV)/bin/python \
	  --torch $(WILD_TORCH_VENV)/bin/python $(NAMES)

wild-pytorch: $(WILD_TORCH_VENV)/.ready
	$(WILD_TORCH_VENV)/bin/python tests/wild/pytorch_tests.py $(FILES)

bench: $(PARITY_VENV)/.ready
	$(PARITY_VENV)/bin/python benchmarks/eager.py --readme
	$(PARITY_VENV)/bin/python benchmarks/compiled.py --readme
	$(PARITY_VENV)/bin/python benchmarks/examples.py --readme
	$(PARITY_VENV)/bin/python benchmarks/scripts.py --readme

curves: $(PARITY_VENV)/.ready
	$(PARITY_VENV)/bin/python benchmarks/parity.py

stubs: $(VENV)/.with-lint
	$(BIN)/python -m flambeau.command.stubs

clean:
	rm -rf $(VENV) $(PARITY_VENV) $(WILD_VENV) $(WILD_TORCH_VENV) .arm .pytest_cache .mypy_cache
	rm -rf .ruff_cache .import_linter_cache demo.png
