# SPDX-License-Identifier: GPL-2.0-only
# `make run` and `make test` do all their own set-up; caches are kept below ~/.cache/asa.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:

PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
VENV := .venv
ASA := $(VENV)/bin/asa
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help run test check setup bench-setup bpf deb wheel bench bench-scenarios bench-scale bench-stand-ins bench-overhead bench-switch bench-laptop bench-recognition evaluate lock clean recordings train man
help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 19

run: $(VENV)/.done ## the agent at work: on this machine where it can switch, else in the lab
	@$(ASA) demo --out run.json

test: check ## every check and every test, the lab's too
	@$(ASA) setup --tests
	python -m pytest --reruns 1 --durations=40

check: $(VENV)/.done ## lint, format, types, layers: what pre-commit runs
	@pre-commit run --all-files --show-diff-on-failure

setup: $(VENV)/.done ## system packages, eBPF programs, kernel, schedulers
	@$(ASA) setup

bpf: $(VENV)/.done ## compile the eBPF programs and the model's evaluator
	@$(ASA) setup --probes

man: $(VENV)/.done ## the manual pages, into build/man
	@$(ASA) man --out build/man

deb: bpf ## the Debian package, into build
	@$(ASA) deb --out build

wheel: bpf ## the wheel with what is compiled in it, into build
	@hatchling build -t wheel -d build

bench: bench-recognition bench-overhead bench-switch bench-laptop bench-scale bench-stand-ins bench-scenarios ## every benchmark

bench-overhead: bpf ## what the agent and its probes cost, into docs/overhead.md (33 minutes; nothing else may run)
	@$(ASA) bench overhead

bench-switch: setup ## what a switch takes, each way, in the lab, into docs/switching-figures.md (30 minutes; nothing else may run)
	@$(ASA) bench switch

bench-laptop: setup ## what daemon and helper cost and keep, partly in the lab, into docs/laptop-figures.md (20 minutes)
	@$(ASA) bench laptop

bench-recognition: bpf ## what the model's evaluation costs, by each candidate, into docs/runtime.md, and how soon and how rightly voting follows recorded sequences, into docs/voting.md (nothing else may run)
	@$(ASA) bench recognition
	sequences=(models/recordings/sequences/*.journal.xz)
	[ ! -e "$${sequences[0]}" ] || $(ASA) evaluate voting "$${sequences[@]}" --page docs/voting.md

bench-scale: setup ## schedulers against numbers of CPUs, in the lab, into docs/scale.md
	@$(ASA) bench scale

bench-stand-ins: bench-setup ## the lab's stand-ins beside the real programs, into docs/stand-ins.md (15 minutes; nothing else may run)
	@$(ASA) bench stand-ins

bench-scenarios: bench-setup ## the 28 scenarios, real and in the lab, into calibration/results, and what they are worth (hours)
	@failed=0
	run() {
		kept="calibration/results/$$1"
		if [ -e "$$kept/trials.parquet" ] && [ ! -d "$$kept/trials" ]; then
			echo "$$kept: whole, and kept; remove it to measure anew"
			return
		fi
		$(ASA) bench run --scenario all --seconds 10 --warm-up 3 --out "$$kept" "$${@:2}" || failed=$$?
		[ "$$failed" -le 1 ] || exit "$$failed"
	}
	run real-all --tier real
	run pairs --tier lab --jobs 2 --scheduler eevdf,eevdf,scx_simple --repeat 4
	run lab-all --tier lab --jobs 2 --scheduler eevdf,scx_simple,scx_bpfland,scx_flash
	$(ASA) evaluate scenarios
	exit $$failed

FLEET := calibration/results/fleet
QUICK_FLEET := --machine vm125,vm124 --scenario web+kernel,web+disk,office+kernel,office+disk --seconds 10 --warm-up 10 \
	--scheduler eevdf,scx_simple,scx_bpfland,scx_flash,agent,loader-auto --jobs 2
FULL_FLEET := --machine all --scenario all,changing --repeat 3 --seed 1 --jobs 2 \
	--scheduler installed,controllers,eevdf,agent:no-voting,agent:no-cooldown,agent:no-guard,agent:no-cost \
	$(if $(TABLES),--table $(TABLES))

# 4: trials failed, and the page says so; whatever else went wrong, there would be a page of older runs
evaluate: setup ## the agent beside every scheduler on the lab's fleet, into docs/evaluation.md (days; TABLES=DIR: its table for each machine; QUICK=1: minutes, into build)
	@failed=0
	if [ -n "$(QUICK)" ]; then
		mkdir -p build
		$(ASA) fleet run --out build/fleet $(QUICK_FLEET) || failed=$$?
		[ "$$failed" = 0 ] || [ "$$failed" = 4 ] || exit "$$failed"
		$(ASA) evaluate fleet build/fleet --page build/evaluation.md
	else
		$(ASA) fleet run --out $(FLEET) $(FULL_FLEET) || failed=$$?
		[ "$$failed" = 0 ] || [ "$$failed" = 4 ] || exit "$$failed"
		$(ASA) evaluate fleet $(FLEET) --page docs/evaluation.md
	fi
	exit $$failed

bench-setup: $(VENV)/.done ## the benchmark's applications, besides `make setup` (1 GB)
	@$(ASA) setup --bench

$(VENV)/.done: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "asa: $(PYTHON) is older than 3.11; set PYTHON=" >&2; exit 1; }
	if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then
		echo "installing python3-venv"
		$(SUDO) apt-get -qq update && $(SUDO) apt-get -qq install -y --no-install-recommends python3-venv
	fi
	echo "making $(VENV) (hash-checked wheels)"
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lock: ## pin all dependencies again, with hashes
	uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-header --quiet --all-extras pyproject.toml -o requirements.lock

clean: ## forget the virtual environment (caches stay)
	rm -rf $(VENV) run.json

recordings: setup ## record the simple loads anew, here and in the lab, into build/recordings (an hour; nothing else may run)
	@mkdir -p build/recordings
	$(ASA) record --campaign --sessions 4 --for 20 --journal build/host.journal --pack build/recordings/host.journal.xz
	for part in eevdf others; do
		$(ASA) lab run --disk 512 --limit 3600 --out build/recordings -- $(CURDIR)/scenarios/lab/record_all $(CURDIR)/build/recordings "$$part"
	done

train: $(VENV)/.done ## train the shipped model from models/recordings, judge it, write its card and docs/recognition.md (hours)
	@mkdir -p build
	$(ASA) train --card docs/model-card.md --held-out build/held-out.npz
	sequences=(models/recordings/sequences/*.journal.xz)
	[ -e "$${sequences[0]}" ] || sequences=()
	$(ASA) evaluate model $${sequences:+--sequences "$${sequences[@]}"} --page docs/recognition.md
