# `make` lists the targets. Everything is installed into .venv; nothing outside the checkout is changed.
SHELL := /bin/bash
PYTHON ?= python3
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
SEED ?= 1
N ?= 200
CHANGES ?= 40
VOLUMES ?= quick
MIXES ?=
SECONDS ?= 60
ROUNDS ?= 1
KEEP ?=
NODES ?= 3
FAULTS ?=
TABLES ?=
TIMES ?= 30
KILLS ?= 5
FAST := tests/unit tests/property tests/golden tests/transcripts tests/tidy

# Where an image sets it, each of the many processes of a run would compile the tests, the tools and what it installs anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup fmt check check-static test peers rules reference demo integration spark spark-newest flights transcripts sim sim-deep mutants mixed crash fuzz bench bench-cluster bench-spark bench-scale bench-failover bench-availability kills chaos spark-chaos profile lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: .venv/.ready ## the virtual environment, from the lock file

.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; say make PYTHON=... with its name") if sys.version_info < (3, 11) else 0'
	@echo "making .venv; the packages of requirements.lock (PySpark alone is 450 MB) take a minute or two the first time"
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock | sed -un "s/^Collecting \([^ ]*\).*/  getting \1/p; s/^Installing.*/  installing them all/p"; exit $${PIPESTATUS[0]}
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@$(PY) -m compileall -q src  # so that the first start of a node is as quick as the next
	@touch $@

fmt: setup ## format and fix
	$(PY) -m ruff format src tests tools benchmarks examples
	$(PY) -m ruff check --fix src tests tools benchmarks examples

check: setup ## format, lint, types, import contracts, size limits, fast tests; under a minute
	@$(PY) tools/check.py $(FAST)

check-static: setup ## the part of check that runs no test
	@$(PY) tools/check.py --static

test: setup peers ## everything, in one pytest run, three files at a time; VOLUMES=ci for as much as the continuous check
	HEADRACE_VOLUMES=$(VOLUMES) $(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder

demo: setup ## 336,776 flights through a node and Spark into tables and a plot
	$(PY) -m headrace demo flights

peers: setup ## Apache Kafka, to test beside it; without java and mvn nothing
	@$(PY) -m tests.peers.class_archive

rules: setup ## where each rule of docs/rules is held, renewed
	$(PY) -m tools.rules --write

reference: setup ## docs/reference, made from docstrings and tables
	$(PY) -m tools.reference

integration: setup peers ## real sockets, files, and other makers' clients
	$(PYTEST) tests/integration tests/crash

spark: setup ## the data source and the pipelines on a local Spark
	$(PYTEST) tests/spark

spark-newest: setup ## the same on the newest PySpark that is allowed, by hand
	HEADRACE_NEWEST=all HEADRACE_VOLUMES=ci $(PYTEST) -n 0 tests/packaging -k newest_pyspark

flights: setup ## the whole year through the declarative pipeline, whose runs are killed, by hand: make flights KILLS=5
	HEADRACE_FLIGHTS=336776 HEADRACE_PIPELINE_KILLS=$(KILLS) $(PYTEST) -n 0 --timeout=7200 tests/spark/test_example_flights.py

transcripts: setup ## rewrite the transcripts; read the diff line by line
	HEADRACE_REWRITE_TRANSCRIPTS=1 $(PYTEST) tests/transcripts -p no:randomly

sim: setup ## seeded clusters under faults, as CI runs them: make sim SEED=7
	$(PY) -m headrace sim --suite ci --seed $(SEED)

sim-deep: setup ## 10,000 quorums and more, by hand, to be gone on with: make sim-deep SEED=7 KEEP=/var/tmp/deep.jsonl
	$(PY) -m headrace sim --suite deep --seed $(SEED) $(if $(KEEP),--keep $(KEEP))

mutants: setup ## planted defects, and the seed at which each is found
	$(PY) -m tools.mutants

mixed: setup ## Headrace and Apache Kafka in one quorum, the long run, by hand: make mixed CHANGES=40
	HEADRACE_MIXED_CHANGES=$(CHANGES) $(PYTEST) tests/integration/quorum/test_mixed_quorum.py -s

crash: setup ## the long crash-point run, by hand: make crash SEED=7 N=20000
	HEADRACE_CRASH_SEED=$(SEED) HEADRACE_CRASH_RECOVERIES=$(N) HEADRACE_METADATA_CRASHES=$(N) $(PYTEST) tests/crash -s

fuzz: setup ## spoilt frames for decoders and listeners, the long run, by hand: make fuzz SEED=7 N=2000000
	HEADRACE_FUZZ_SEED=$(SEED) HEADRACE_FUZZ_FRAMES=$(N) $(PYTEST) tests/fuzz -s

kills: setup ## one node killed (kill -9) under load, the long run, by hand: make kills N=50
	HEADRACE_KILLS=$(N) $(PYTEST) tests/integration/test_kill_under_load.py -s

chaos: setup ## real nodes broken on purpose, clients' histories judged: make chaos MIXES=kill,cut SECONDS=60 SEED=7 ROUNDS=3 NODES=5
	$(PY) -m tools.chaos --mixes "$(MIXES)" --seconds $(SECONDS) --seed $(SEED) --rounds $(ROUNDS) --nodes $(NODES)

spark-chaos: setup peers ## streams into tables broken on purpose, rows counted: make spark-chaos FAULTS=driver,broker TIMES=30 NODES=1
	$(PY) -m tools.spark_chaos --faults "$(FAULTS)" --tables "$(TABLES)" --times $(TIMES) --nodes $(NODES) --seed $(SEED)

bench: setup ## Headrace beside Apache Kafka in one run, a table of ratios
	$(PY) -m benchmarks.run

bench-cluster: setup ## three nodes with three copies of each record, beside three of Apache Kafka
	$(PY) -m benchmarks.cluster

bench-spark: setup ## our Spark source and sink beside the JVM connector; with --all by hand for each size, codec and partition count
	$(PY) -m benchmarks.spark.run

bench-scale: setup ## the controller with 10 k to 1 M partitions
	$(PY) -m benchmarks.scale

bench-failover: setup ## a killed and a paused controller: how long until changes are acknowledged again
	$(PY) -m benchmarks.failover

bench-availability: setup ## a partition's leader killed, stopped, paused, beside Apache Kafka: how long until records are acknowledged again
	$(PY) -m benchmarks.availability

profile: setup ## profile one load: make profile WHAT=produce
	$(PY) -m benchmarks.profile_node $(WHAT)

dist: setup ## wheel, sdist and release note, in dist/
	rm -rf dist build
	$(PY) -m build --outdir dist .
	$(PY) -m tools.release_note > dist/RELEASE_NOTE.md

lock: ## renew the lock file
	$(PY) -m piptools compile --quiet --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --unsafe-package headrace --unsafe-package pip --unsafe-package setuptools --upgrade-package pyspark==4.2.0 --extra demo --extra test -o requirements.lock pyproject.toml

clean: ## remove what the targets made
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
