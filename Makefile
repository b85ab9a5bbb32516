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
.PHONY: help demo test check lint venv system format freeze hooks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv  ## train an agent on the embedded game Catch; evaluate, film and report it
	@rm -rf $(DEMO)
	$(BIN)/wmtk online wmtk/Catch-v0 --out $(DEMO)/agent --steps 9000 --seed 0
	$(BIN)/wmtk eval $(DEMO)/agent --episodes 100 --video $(DEMO)/agent.mp4
	$(BIN)/wmtk collect wmtk/Catch-v0 --out $(DEMO)/fresh.zarr --policy $(DEMO)/agent \
	    --episodes 60 --seed 1 --store-info ball,paddle
	$(BIN)/wmtk viz report $(DEMO)/agent $(DEMO)/fresh.zarr --out $(DEMO)/report.html
	@echo
	@echo "Random play catches 1.6 of 5 balls (return -1.7); an optimal policy catches 4.9 (return 4.9)."
	@echo "  the run               $(BIN)/wmtk runs $(DEMO)"
	@echo "  a video of the agent  $(DEMO)/agent.mp4"
	@echo "  a report on its model $(DEMO)/report.html, in any browser"
	@echo "  the live page         $(BIN)/wmtk viz serve $(DEMO)/agent $(DEMO)/fresh.zarr"
	@echo "  all commands          $(BIN)/wmtk --help"

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

hooks: venv  ## run the checks of `make lint` before every commit
	$(BIN)/pre-commit install

freeze:  ## write the versions installed in .venv to constraints.txt
	@grep '^#' constraints.txt > constraints.new
	@$(BIN)/pip freeze --all --exclude-editable | sed -E '/^(pip|wmtk)[ =]/d; s/\+cpu$$//' >> constraints.new
	@mv constraints.new constraints.txt

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) $(DEMO) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
