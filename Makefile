# Two commands set everything up from nothing: `make toy` and `make test`. PYTHON must be 3.11 or 3.12.
PYTHON ?= python3.11
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
.DEFAULT_GOAL := help
.PHONY: help setup gpu toy test report plan lint format clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

setup: .venv/ready ## the pinned CPU environment in .venv (about 4 GB)

.venv/ready: envs/cpu.lock envs/install.sh pyproject.toml
	bash envs/install.sh cpu "$(PYTHON)" .venv
	touch $@

gpu: ## the pinned CUDA environment in .venv instead, for machines and clusters with GPUs
	bash envs/install.sh gpu "$(PYTHON)" .venv
	touch .venv/ready

toy: .venv/ready ## the toy paper: every step of the paper on 2 CPU cores
	snakemake --profile toy

test: .venv/ready ## all tests, the toy workflow end to end among them
	python -m pytest

report: .venv/ready ## report.zip with all tables, figures and run cards; CONFIG=config/toy.yaml for another configuration
	snakemake $(if $(CONFIG),--configfile $(CONFIG)) --cores 1 --report report.zip

plan: .venv/ready ## what would run: jobs, GPU-hours, disk; CONFIG as above
	tamtrl plan -- --profile slurm $(if $(CONFIG),--configfile $(CONFIG))

lint: .venv/ready ## ruff and snakefmt
	ruff check . && ruff format --check .
	snakefmt --check Snakefile workflow

format: .venv/ready
	ruff check --fix . && ruff format .
	snakefmt Snakefile workflow

clean: ## what was made, environments apart
	rm -rf results/toy results/sample results/published logs scratch .snakemake build report.zip
