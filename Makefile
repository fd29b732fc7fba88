# Every target sets up .venv by itself; only Python 3.11 or newer and make have to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# CUDA=none|12|13 picks the CuPy to install; left out, it is the newest that the NVIDIA driver can run.
CUDA ?= $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Za-z ]*Version: *\([0-9][0-9]*\).*/\1/p' | \
	awk '$$1 >= 13 { print 13; found = 1 } $$1 == 12 { print 12; found = 1 } END { if (!found) print "none" }')
CUDA := $(CUDA)
EXTRAS_none := test
EXTRAS_12 := test,cuda12
EXTRAS_13 := test,cuda13
EXTRAS := $(EXTRAS_$(CUDA))
ifeq ($(EXTRAS),)
$(error CUDA=$(CUDA) is not one of none, 12, 13)
endif
READY := $(VENV)/ready-cuda-$(CUDA)

EDITORS_KEYS := metadata.language_info metadata.widgets cell.metadata.editable cell.metadata.slideshow \
	cell.metadata.tags cell.metadata.jupyter cell.metadata.scrolled cell.metadata.execution cell.metadata.collapsed

.PHONY: help lab test fuzz climb doctor lint format clean
.DEFAULT_GOAL := help

help:
	@echo "make lab      open the notebooks in JupyterLab"
	@echo "make climb    run the ladder of kernels in the terminal; ARGS='--size 512' passes arguments on"
	@echo "make doctor   check what this machine has, and say what to do about the rest"
	@echo "make test     lint, test the package, and run every notebook"
	@echo "make fuzz     search for faults with random examples; ARGS='-k ptx' picks tests"
	@echo "make lint     check style;  make format  rewrite to it"
	@echo "make clean    remove .venv and caches"
	@echo
	@echo "PYTHON=...           the interpreter that makes .venv (now $(PYTHON))"
	@echo "CUDA=none|12|13      the CuPy that goes into .venv (now $(CUDA))"

# Two CuPy wheels break each other, so the one of another CUDA goes first.
$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
		{ echo "$(PYTHON) was not found: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gemmlab needs Python 3.11 or newer, but $(PYTHON) is %d.%d: name another: make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Setting up $(VENV); the packages are some hundred megabytes, so the first time takes minutes."
	$(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/ready-cuda-*
	$(BIN)/python -m pip uninstall --quiet --quiet --yes cupy-cuda12x cupy-cuda13x
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

lab: $(READY)
	$(BIN)/jupyter lab notebooks $(ARGS)

climb: $(READY)
	$(BIN)/python -m gemmlab climb $(ARGS)

doctor: $(READY)
	$(BIN)/python -m gemmlab doctor $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# A cell keeps its id, which the tests know it by; what JupyterLab adds to metadata goes.
format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/nbstripout --keep-id --extra-keys "$(EDITORS_KEYS)" notebooks/*.ipynb

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal tests
	$(BIN)/python -m pytest -n auto --dist loadscope --nbval-lax --nbval-current-env -x notebooks

fuzz: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal --hypothesis-profile search $(ARGS) tests

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
