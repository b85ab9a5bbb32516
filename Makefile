# Every target does its own set-up: on a fresh machine `make demo` or `make test` is all it takes.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Headless rendering for dm_control, the tracer that the fault tests kill writers with, and the
# browser that the tests open reports in.
SYSTEM_PACKAGES := libegl1 libgl1-mesa-dri strace chromium
# One worker a core, and idle ones take over tests of busy ones. `make check JOBS=0` uses none.
JOBS ?= auto
PYTEST := $(BIN)/pytest -q -n $(JOBS) --dist worksteal
DEMO := demo

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint venv system format freeze clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv  ## collect a small dataset with the embedded environment and show it
	@rm -rf $(DEMO)
	$(BIN)/wmtk collect wmtk/Catch-v0 --out $(DEMO)/catch.zarr --steps 5000 --seed 0
	$(BIN)/wmtk data info $(DEMO)/catch.zarr
	$(BIN)/wmtk data sheet $(DEMO)/catch.zarr --out $(DEMO)/catch.png
	@echo
	@echo "The dataset is $(DEMO)/catch.zarr, a picture of its episodes is $(DEMO)/catch.png."
	@echo "Next: $(BIN)/wmtk --help"

test: lint system  ## every check and every test, the slow ones too
	$(PYTEST)

check: lint system  ## every check and the fast tests
	$(PYTEST) -m "not slow"

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy wmtk $(wildcard benchmarks/*.py)
	$(BIN)/lint-imports

venv: $(STAMP)  ## create or update .venv with the pinned packages

$(STAMP): pyproject.toml constraints.txt .ci/venv
	@.ci/venv $(VENV)
	@touch $@

system:
	@.ci/apt-install $(SYSTEM_PACKAGES)

format: venv  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

freeze:  ## write the versions installed in .venv to constraints.txt
	@grep '^#' constraints.txt > constraints.new
	@$(BIN)/pip freeze --all --exclude-editable | sed -E '/^(pip|wmtk)[ =]/d; s/\+cpu$$//' >> constraints.new
	@mv constraints.new constraints.txt

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) $(DEMO) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
