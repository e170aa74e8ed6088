# Two commands set everything up from nothing: `make toy` and `make test`. PYTHON must be 3.11 or 3.12.
PYTHON ?= python3.11
# The folder of the environment. One that is there is of one kind, cpu or gpu, for good; another kind takes another folder.
VENV ?= .venv
KIND := $(shell cat "$(VENV)/kind" 2>/dev/null)
export PATH := $(abspath $(VENV))/bin:$(PATH)
.DEFAULT_GOAL := help
.PHONY: help setup gpu toy test test-unit test-rare report plan lint format clean

ifeq ($(KIND),gpu)
ifneq ($(filter setup toy test test-unit test-rare,$(MAKECMDGOALS)),)
$(error $(VENV) is a GPU environment, and `make $(filter setup toy test test-unit test-rare,$(MAKECMDGOALS))` takes the CPU one, which goes beside it: say VENV=.venv-cpu)
endif
endif
ifeq ($(KIND),cpu)
ifneq ($(filter gpu,$(MAKECMDGOALS)),)
$(error $(VENV) is a CPU environment; the GPU one goes beside it: `make gpu VENV=.venv-gpu`, and VENV=.venv-gpu for what then uses it)
endif
endif

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-9s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## the pinned CPU environment in .venv (about 4 GB); VENV=FOLDER for another folder

# Up to date with the lock of its kind. A new one is for CPUs.
$(VENV)/ready: envs/$(or $(KIND),cpu).lock envs/install.sh pyproject.toml
	bash envs/install.sh $(or $(KIND),cpu) "$(PYTHON)" "$(VENV)"

gpu: ## the pinned CUDA environment in .venv instead, for machines and clusters with GPUs
	bash envs/install.sh gpu "$(PYTHON)" "$(VENV)"

toy: $(VENV)/ready ## the toy paper: every step of the paper on 2 CPU cores
	snakemake --profile toy

test: $(VENV)/ready ## all tests, the toy workflow end to end among them
	python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/workflow tests/unit
	python -m pytest tests/slurm

test-unit: $(VENV)/ready ## the quick tests, for while you work
	python -m pytest -n 2 --dist loadfile tests/unit -m "not slow and not rare"

test-rare: $(VENV)/ready ## rare faults of jobs and of SLURM (docs/cluster.md); installs and configures a SLURM, as root
	TAMTRL_TEST_SLURM=1 python -m pytest -m rare

report: $(VENV)/ready ## report.zip with all tables, figures and run cards; CONFIG=config/toy.yaml for another configuration
	snakemake $(if $(CONFIG),--configfile $(CONFIG)) --cores 1 --report report.zip

plan: $(VENV)/ready ## what would run: jobs, GPU-hours, disk; CONFIG as above
	tamtrl plan -- --profile slurm $(if $(CONFIG),--configfile $(CONFIG))

lint: $(VENV)/ready ## ruff, mypy and snakefmt
	ruff check . && ruff format --check .
	mypy
	snakefmt --check Snakefile workflow

format: $(VENV)/ready
	ruff check --fix . && ruff format .
	snakefmt Snakefile workflow

clean: ## what was made, environments apart
	rm -rf results/toy results/sample results/published logs scratch .snakemake build report.zip
