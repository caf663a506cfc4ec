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

.PHONY: help run test check setup bench-setup bpf deb wheel sdist packages bench bench-scenarios bench-scale bench-foreign bench-stand-ins bench-overhead bench-switch bench-laptop bench-recognition figures-recognition bench-knowledge figures-knowledge bench-house figures-house bench-lab figures-lab bench-evaluation figures-evaluation bench-harmless figures-harmless bench-users figures-users bench-policies figures-policies bench-agent figures-agent screenshots evaluate evaluate-fleet lock clean recordings train man
help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 19

run: $(VENV)/.done ## the agent at work: on this machine where it can switch, else in the lab
	@$(ASA) lab demo --out run.json

test: $(VENV)/.done ## every check and every test, the lab's too; says how long each part took
	@SECONDS=0
	$(MAKE) --no-print-directory check
	checked=$$SECONDS
	$(ASA) lab setup --tests
	ASA_TEST_PARTS="check=$$checked setup=$$((SECONDS - checked))" python -m pytest --durations=20

check: $(VENV)/.done ## lint, format, types, layers: what pre-commit runs
	@pre-commit run --all-files --show-diff-on-failure

setup: $(VENV)/.done ## system packages, eBPF programs, kernel, schedulers
	@$(ASA) lab setup

bpf: $(VENV)/.done ## compile the eBPF programs and the model's evaluator
	@$(ASA) lab setup --probes

screenshots: $(VENV)/.done ## the picture of `asa monitor` and the page of its numbers, into docs, from what an agent said once
	@python -m calibration.screenshots

man: $(VENV)/.done ## the manual pages, into build/man
	@$(ASA) lab man --out build/man

deb: bpf ## the Debian packages asa and asa-lab, into build
	@$(ASA) lab deb --out build

wheel: bpf ## the wheels asa (with what is compiled in it) and asa-lab, into build
	@hatchling build -t wheel -d build
	cd calibration && hatchling build -t wheel -d ../build

sdist: $(VENV)/.done ## the source of the wheel asa, into build
	@hatchling build -t sdist -d build

packages: bpf ## all five packages (deb, rpm, wheel, sdist, Arch's) by Debian's tools, checked against the one list of files, into build
	@python -m calibration.users.packages --out build

bench: bench-recognition bench-overhead bench-switch bench-laptop bench-scale bench-stand-ins bench-scenarios ## every benchmark

bench-overhead: bpf ## what the agent and its probes cost, into docs/overhead.md (33 minutes; nothing else may run)
	@$(ASA) lab bench overhead

bench-switch: setup ## what a switch takes, each way, in the lab, into docs/switching-figures.md (30 minutes; nothing else may run)
	@$(ASA) lab bench switch

bench-laptop: setup ## what daemon and helper cost and keep, partly in the lab, into docs/laptop-figures.md (20 minutes)
	@$(ASA) lab bench laptop

bench-recognition: bpf ## what the model's evaluation costs, by each candidate, into docs/runtime.md, how soon and how rightly voting follows recorded sequences, into docs/voting.md, and what is recognised of programs held out, into calibration/results/recognition.json (hours; nothing else may run)
	@$(ASA) lab bench recognition
	sequences=(models/recordings/sequences/*.journal.xz)
	[ ! -e "$${sequences[0]}" ] || $(ASA) lab evaluate voting "$${sequences[@]}" --page docs/voting.md
	python -m calibration.recognition --measure

figures-recognition: $(VENV)/.done ## what `make bench-recognition` kept of programs held out, a JSON line a figure
	@python -m calibration.recognition

bench-knowledge: $(VENV)/.done ## what the base of programs and change points are worth on recorded sequences, into calibration/results/knowledge.json (a minute)
	@python -m calibration.knowledge --measure

figures-knowledge: $(VENV)/.done ## what `make bench-knowledge` kept, a JSON line a figure
	@python -m calibration.knowledge

bench-scale: setup ## schedulers against numbers of CPUs, in the lab, into docs/scale.md
	@$(ASA) lab bench scale

bench-foreign: setup ## what PANDEMONIUM's benchmark measures, in the lab, into docs/foreign.md
	@$(ASA) lab bench scale --foreign

bench-stand-ins: bench-setup ## the lab's stand-ins beside the real programs, into docs/stand-ins.md (15 minutes; nothing else may run)
	@$(ASA) lab bench stand-ins

bench-scenarios: bench-setup ## the 28 scenarios, real and in the lab, into calibration/results, and what they are worth (hours)
	@failed=0
	run() {
		kept="calibration/results/$$1"
		if [ -e "$$kept/trials.parquet" ] && [ ! -d "$$kept/trials" ]; then
			echo "$$kept: whole, and kept; remove it to measure anew"
			return
		fi
		$(ASA) lab bench run --scenario all --seconds 10 --warm-up 3 --out "$$kept" "$${@:2}" || failed=$$?
		[ "$$failed" -le 1 ] || exit "$$failed"
	}
	run real-all --tier real
	run pairs --tier lab --jobs 2 --scheduler eevdf,eevdf,scx_simple --repeat 4
	run lab-all --tier lab --jobs 2 --scheduler eevdf,scx_simple,scx_bpfland,scx_flash
	$(ASA) lab evaluate scenarios
	exit $$failed

bench-house: $(VENV)/.done ## count commands, settings, lines, copies of one mechanism, into calibration/results/house.json
	@python -m calibration.house --measure

figures-house: $(VENV)/.done ## what `make bench-house` kept, a JSON line a figure
	@python -m calibration.house

bench-harmless: setup ## harm that the agent does: what the guard takes back wrongly, how soon planted bad schedulers go, into calibration/results/harmless.json (three hours, resumed)
	@python -m calibration.harmless --measure

figures-harmless: $(VENV)/.done ## what `make bench-harmless` kept, a JSON line a figure
	@python -m calibration.harmless

bench-users: bpf ## where the users are: doctor's first sentence, faults that others' users reported, desktops run for real, packages, into calibration/results/users.json (an hour)
	@python -m calibration.users --measure

figures-users: $(VENV)/.done ## what `make bench-users` kept, a JSON line a figure
	@python -m calibration.users

bench-policies: setup ## what the verifier catches, and what compositions are worth in guests, into calibration/results/policies.json (20 minutes)
	@python -m calibration.policies --measure

figures-policies: $(VENV)/.done ## what `make bench-policies` kept, a JSON line a figure
	@python -m calibration.policies

bench-agent: $(VENV)/.done ## how `asa mcp` holds up: foreign clients (by npm), fuzzed calls, killed servers, its cost, into calibration/results/agent.json (four minutes)
	@python -m calibration.agent --measure

figures-agent: $(VENV)/.done ## what `make bench-agent` kept, a JSON line a figure
	@python -m calibration.agent

bench-lab: setup ## the lab itself: CPUs at the same time, speeds, repeats, builds, boots, ten demonstrations, into calibration/results/lab.json (an hour; nothing else may run)
	@python -m calibration.lab --measure

figures-lab: $(VENV)/.done ## what `make bench-lab` kept, a JSON line a figure
	@python -m calibration.lab

comma := ,
STEP ?= small
bench-evaluation: setup ## the small step of the matrix (STEP=all: all of it), and what there is to gain, into calibration/results and docs/oracle.md (hours, resumed)
	@$(ASA) lab bench matrix --step $(STEP) --jobs 2 $(if $(HOURS),--hours $(HOURS))
	$(ASA) lab evaluate oracle --page docs/oracle.md
	python -m calibration.switchback --measure

figures-evaluation: $(VENV)/.done ## what `make bench-evaluation` kept, a JSON line a figure
	@python -m calibration.switchback

MATRIX := $(if $(QUICK),build/evaluation/switchback,calibration/results/switchback)
# a model that knows the lab's stand-ins, which `make evaluate-fleet` trains; the shipped one else
MODEL ?= $(wildcard calibration/results/parallel/stages/model.npz)
# 4: runs failed, and the page is of the others
evaluate: $(if $(FULL),evaluate-fleet,setup) ## the agent, and that of a fresh installation, in turns with EEVDF, beside the matrix, into docs/oracle.md (HOURS=6 at most, resumed; QUICK=1: 15 minutes, into build; FULL=1: `evaluate-fleet` in full)
	@[ -z "$(FULL)" ] || exit 0
	code=0
	$(ASA) lab bench matrix --out $(MATRIX) --step $(if $(QUICK),quick$(comma)quick-agent,agent) --jobs 2 \
		--hours $(or $(HOURS),$(if $(QUICK),0.25,6)) $(if $(MODEL),--model $(MODEL)) || code=$$?
	[ "$$code" = 0 ] || [ "$$code" = 4 ] || exit "$$code"
	$(ASA) lab evaluate oracle $(MATRIX) --page $(if $(QUICK),build/evaluation,docs)/oracle.md
	$(if $(QUICK),,python -m calibration.switchback --measure)
	exit $$code

ABLATIONS := agent:no-voting,agent:no-cooldown,agent:no-guard,agent:no-cost

# What `make evaluate-fleet` plays. Unseen machines stand with the prototype whose table they begin with.
ifneq ($(QUICK),)
EVALUATION := build/evaluation
PROTOTYPES := vm125
UNSEEN := vm124:vm125
SCENARIOS := web+kernel,web+disk,office+kernel,office+disk
# no time for what a switch costs, for a model (the shipped one does not know stand-ins: the agent mostly stays on EEVDF),
# nor to adapt: the unseen machine has the prototype's table as it is
COSTS_BY :=
ADAPT_MINUTES :=
SCHEDULERS := eevdf,scx_simple,scx_bpfland,scx_flash
COLUMNS := $(SCHEDULERS),agent
CHANGING :=
STAGE_REPEAT := 1
STAGE_SECONDS := 2
FLEET := --repeat 1 --seconds 3 --warm-up 4
else ifneq ($(FULL),)
EVALUATION := build/evaluation-full
PROTOTYPES := vm120 vm121 vm125 vm128
UNSEEN := vm122:vm121 vm123:vm121 vm124:vm120 vm126:vm128 vm127:vm128 vm129:vm128
SCENARIOS := all
COSTS_BY := web+kernel,office+video,game+llm,audio+disk
SCHEDULERS := all
RECORDED := eevdf,scx_bpfland,scx_flash,scx_simple
COLUMNS := installed,controllers,eevdf,$(ABLATIONS)
CHANGING := changing
CHANGING_COLUMNS := $(COLUMNS)
CHANGING_FLEET = $(FLEET)
STAGE_REPEAT := 3
STAGE_SECONDS := 20
ADAPT_MINUTES := 30
FLEET := --repeat 3 --seconds 30 --warm-up 30
else
EVALUATION := calibration/results/parallel
PROTOTYPES := vm120
UNSEEN := vm122:vm120
# by the alphabet: each application with the next two of the loads, which begin anew at their end
SCENARIOS := audio+archive,audio+blender,game+disk,game+kernel,office+llm,office+network,web+video,web+archive
COSTS_BY := office+llm
SCHEDULERS := eevdf,scx_simple,scx_bpfland,scx_flash
RECORDED := $(SCHEDULERS)
COLUMNS := $(SCHEDULERS),agent,loader-auto
# the same eight, each once, a load that keeps all processors busy first; on the prototype, and with agents that lack a part
CHANGING := audio+blender~web+video,game+kernel~office+network,office+llm~audio+archive,web+archive~game+disk
CHANGING_COLUMNS := $(SCHEDULERS),agent,$(ABLATIONS)
CHANGING_FLEET := --repeat 1 --seconds 30 --warm-up 30
STAGE_REPEAT := 2
STAGE_SECONDS := 10
ADAPT_MINUTES := 6
FLEET := --repeat 1 --seconds 10 --warm-up 30
endif
# seed 1 is what the lab's agent and its settings were developed with; none of it is reported
SEED ?= 2
PAGE := $(if $(QUICK)$(FULL),$(EVALUATION)/evaluation.md,docs/evaluation.md)
STAGES := $(EVALUATION)/stages
IN_LAB := --in-lab --scheduler $(SCHEDULERS) --jobs 2

# Stages 1 to 3 with seeds of their own, 11 to 20, a model of what they recorded and of a machine at rest, then the fleet. A command that has
# done its part does nothing again. 4: trials failed, and the page says so
evaluate-fleet: setup ## the three stages, and the agent beside schedulers on the lab's fleet, into docs/evaluation.md (hours; SEED=N: more runs to those that are kept; QUICK=1: minutes, FULL=1: days, both into build)
	@case "$(SEED)" in 1[1-9]|20) echo "make evaluate-fleet: SEED=$(SEED) is one that the stages learn from; name another" >&2; exit 2; esac
	mkdir -p $(STAGES)/tables $(STAGES)/recordings $(EVALUATION)/fleet
	table=$(STAGES)/tables
	left() { # of a stage that is kept a clone has tables, and no trials to go on from
		[ ! -e "$$table/$$machine.yaml" ] || [ ! -e "$(STAGES)/$$1/trials.parquet" ] || [ -d "$(STAGES)/$$1/trials" ]
	}
	recorded() { # what a stage has recorded, to train from
		for one in $(STAGES)/$$1/recordings/*; do [ ! -e "$$one" ] || cp "$$one" "$(STAGES)/recordings/$$1-$${one##*/}"; done
	}
	for machine in $(PROTOTYPES); do
		if left $$machine-prototype; then
			$(ASA) calibrate prototype --machine $$machine $(IN_LAB) --scenario $(SCENARIOS) --repeat $(STAGE_REPEAT) \
				--seconds $(STAGE_SECONDS) --seed 11 --record --folder $(STAGES)/$$machine-prototype --out $$table/$$machine.yaml
			recorded $$machine-prototype
		fi
		if [ -n "$(COSTS_BY)" ] && left $$machine-overhead; then
			$(ASA) calibrate overhead --machine $$machine $(IN_LAB) --scenario $(COSTS_BY) --repeat 1 --seconds 15 \
				--seed 12 --record --folder $(STAGES)/$$machine-overhead --from $$table/$$machine.yaml --out $$table/$$machine.yaml
			recorded $$machine-overhead
		fi
	done
	if [ -z "$(QUICK)" ] && [ ! -e $(STAGES)/model.md ]; then # the card is written last
		$(ASA) lab record --scenario idle --sessions 2 --for 20 --seed 14 --scheduler eevdf --in-lab $(STAGES)/idle
		# stage 1 plays few seeds, which differ in threads, sizes and think times: more of them, to know a class by
		$(ASA) lab record --scenario $(SCENARIOS) --sessions 6 --for 10 --seed 15 --scheduler $(RECORDED) --in-lab $(STAGES)/more --jobs 2
		cp $(STAGES)/{idle,more}/*.journal.xz $(STAGES)/recordings
		$(ASA) lab train --kind flat --recordings $(STAGES)/recordings --out $(STAGES)/model.npz --card $(STAGES)/model.md
	fi
	for pair in $(UNSEEN); do
		machine=$${pair%:*}
		if [ -z "$(ADAPT_MINUTES)" ]; then
			cp $$table/$${pair#*:}.yaml $$table/$$machine.yaml
		elif left $$machine-adapt; then
			$(ASA) adapt --machine $$machine $(IN_LAB) --scenario $(SCENARIOS) --minutes $(ADAPT_MINUTES) --seconds $(STAGE_SECONDS) \
				--seed 13 --folder $(STAGES)/$$machine-adapt --from $$table/$${pair#*:}.yaml --out $$table/$$machine.yaml
		fi
	done
	sequences=(models/recordings/sequences/*.journal.xz)
	[ ! -e "$${sequences[0]}" ] || $(ASA) lab evaluate voting --all --json "$${sequences[@]}" > $(EVALUATION)/fleet/voting.jsonl
	failed=0
	play() { # into a folder of its own: machines, scenarios, columns, lengths
		local out=$(EVALUATION)/fleet/$$1 code=0
		local played=($$out/*/trials.parquet)
		if [ -e "$${played[0]}" ] && [ ! -d "$$(dirname "$${played[0]}")/trials" ]; then
			echo "$$out: whole, and kept; SEED=N plays more"
			return
		fi
		$(ASA) lab fleet run --out $$out --machine $$2 --scenario $$3 --scheduler $$4 $${@:5} --seed $(SEED) --jobs 2 \
			--table $$table $(if $(QUICK),,--model $(STAGES)/model.npz) || code=$$?
		[ "$$code" = 0 ] || failed=$$code
		[ "$$code" = 0 ] || [ "$$code" = 4 ] || exit "$$code"
	}
	machines="$$(echo $(PROTOTYPES) $(foreach pair,$(UNSEEN),$(firstword $(subst :, ,$(pair)))) | tr ' ' ,)"
	play seed-$(SEED) $$machines $(SCENARIOS) $(COLUMNS) $(FLEET)
	[ -z "$(CHANGING)" ] || play changing-$(SEED) $(if $(FULL),$$machines,$(firstword $(PROTOTYPES))) \
		$(CHANGING) $(CHANGING_COLUMNS) $(CHANGING_FLEET)
	$(ASA) lab evaluate fleet $(EVALUATION)/fleet --page $(PAGE) $(if $(wildcard $(EVALUATION)/notes.md),--notes $(EVALUATION)/notes.md)
	exit $$failed

bench-setup: $(VENV)/.done ## the benchmark's applications, besides `make setup` (1 GB)
	@$(ASA) lab setup --bench

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

# all but `lab`, which names a distribution of this repository
EXTRAS := $(addprefix --extra ,train export cluster bench monitor guests mcp dev)
lock: ## pin all dependencies again, with hashes
	uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-header --quiet $(EXTRAS) pyproject.toml -o requirements.lock

clean: ## forget the virtual environment (caches stay)
	rm -rf $(VENV) run.json

recordings: SEED := 0
recordings: setup ## record the simple loads anew, from seed SEED, here and in the lab, into build/recordings (an hour; nothing else may run)
	@mkdir -p build/recordings
	$(ASA) lab record --campaign --sessions 4 --for 20 --seed $(SEED) --journal build/host.journal --pack build/recordings/host.journal.xz
	for part in eevdf others; do
		$(ASA) lab run --clock steady --disk 512 --limit 3600 --out build/recordings -- $(CURDIR)/scenarios/lab/record_all $(CURDIR)/build/recordings "$$part" $(SEED)
	done

train: $(VENV)/.done ## train the shipped model from models/recordings, judge it, write its card and docs/recognition.md (hours)
	@mkdir -p build
	$(ASA) lab train --card docs/model-card.md --held-out build/held-out.npz
	sequences=(models/recordings/sequences/*.journal.xz)
	[ -e "$${sequences[0]}" ] || sequences=()
	$(ASA) lab evaluate model $${sequences:+--sequences "$${sequences[@]}"} --page docs/recognition.md
