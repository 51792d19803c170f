# Everything is set up from nothing: Python >= 3.11, Java 17 or newer, Maven and make are enough.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARCHIVES := build/.archives
SLEEPERS := build/.sleepers
PICTURES := connection-form connection-test cleanup-form approval report-tab report-notice notice-mail fleet-report report-pruned
# PySpark is built from its source archive, 470 MB of jars and little else: compressing these takes 14 s, for nothing.
STORED := --config-settings-package "pyspark:--build-option=--compression=stored"
# Airflow starts three times as slowly when it may not keep its byte code.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPATH := $(CURDIR)

.DEFAULT_GOAL := help
.PHONY: help setup spark-jars demo demo-migrate first-hour ui screenshots test unit exhaustive component lint faults campaign bench bench-quick bench-job bench-spark layers reference docs diagrams clean check-tools test-oldest test-yarn test-lakes test-spark test-kerberos

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

check-tools:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
	  echo "Python 3.11 to 3.14 is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another with: make PYTHON=python3.12 …"; exit 2; }
	@command -v java >/dev/null || { echo "Java 17 or newer is needed (it runs Kafka and Spark): install it and put 'java' on the PATH."; exit 2; }
	@command -v mvn >/dev/null || { echo "Maven is needed (it fetches Kafka's jars): install it and put 'mvn' on the PATH."; exit 2; }

$(STAMP): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory check-tools
	@echo "Setting up $(VENV) (a minute or two the first time) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.8.4"
	@# No byte code in advance: two thirds of it are modules that nothing here imports.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
	  $(STORED) --editable ".[spark]" --group tests --group lint --group docs
	@touch $@

setup: $(STAMP) ## Set up the virtual environment only

spark-jars: $(STAMP) ## Fetch the jars by which Spark reads Kafka into build/spark-jars
	@$(BIN)/python -m tests.lab.spark.jars

# Without the archives of their classes, brokers and Spark jobs take twice as long to start.
$(ARCHIVES): $(STAMP)
	@echo "Preparing archives of Kafka's and Spark's classes (once, half a minute) …"
	@$(BIN)/python -m tests.lab.class_archive 4.1.0 4.4.0 >/dev/null
	@$(BIN)/python -m tests.lab.spark.archive >/dev/null
	@mkdir -p build && touch $@

$(SLEEPERS): tests/demo/sleepers.py | $(STAMP)
	@echo "Leaving two consumer groups on a broker, so that they sleep (once, a few seconds) …"
	@$(BIN)/python -m tests.demo.sleepers

demo: $(STAMP) $(SLEEPERS) $(ARCHIVES) ## Find, judge, mark, notify, back up, delete and verify stale groups on a real three-broker Kafka
	@$(BIN)/python -m tests.demo

ui: $(STAMP) $(ARCHIVES) ## Click through it: the demo's cluster and a running Airflow, until Ctrl-C
	@exec $(BIN)/python -m tests.ui

screenshots: $(STAMP) ## Take the pictures of Airflow's UI that are in the docs anew
	@CI=1 $(BIN)/python -m pytest tests/ui
	@cp $(addprefix build/ui/,$(addsuffix .png,$(PICTURES))) docs/images/
	@! find docs/images -name '*.png' -size +300k | grep . || { echo "These pictures are larger than 300 kB."; exit 1; }

demo-migrate: $(STAMP) ## Move groups from a Kafka 4.4 to a 3.9 with a mirror whose offsets are shifted (build/migrate/summary.json)
	@$(BIN)/python -m tests.demo.migration

first-hour: $(STAMP) ## Run every command of Get started as printed: the wheel, an empty environment, a foreign cluster
	@$(BIN)/python -m tests.first_hour

test: check-tools ## Run all checks and all tests side by side: real brokers, Airflows, Spark, a browser (LANES="lint unit": only those)
	@exec $(PYTHON) -m tests.lanes $(LANES)

OLDEST := build/airflow-3.2
$(OLDEST)/.installed: $(STAMP) pyproject.toml constraints-airflow-3.2.txt
	@echo "Setting up $(OLDEST) …"
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --constraint constraints-airflow-3.2.txt \
	  "apache-airflow==3.2.0" --editable . --group tests apache-airflow-providers-apache-spark "pyspark-client==4.0.0"
	@touch $@

build/python-%/.installed: $(STAMP) pyproject.toml constraints.txt
	@echo "Setting up build/python-$* …"
	@$(BIN)/uv venv --quiet --clear --python "$$($(PYTHON) -m tests.lanes.pythons $*)" build/python-$*
	@$(BIN)/uv pip install --quiet --python build/python-$*/bin/python --constraint constraints.txt \
	  --editable . --group tests import-linter apache-airflow-providers-apache-spark "pyspark-client==4.2.0"
	@touch $@

test-oldest: $(OLDEST)/.installed ## Run the Airflow parts' quick tests and parse the DAGs on the oldest Airflow supported
	@$(OLDEST)/bin/python -m pytest -p no:cacheprovider $(addprefix tests/unit/,hooks operators sensors triggers) tests/exhaustive/operators tests/component/plugins
	@$(OLDEST)/bin/python -m pytest -p no:cacheprovider tests/dags/test_dag_files.py

test-yarn: $(STAMP) ## Run the Spark jobs on a real YARN, in client and cluster mode (66 MB of downloads, 3 minutes)
	@$(BIN)/python -m pytest tests/spark/clusters/yarn.py

SPARK_4.0 := 4.0.0
SPARK_4.1 := 4.1.1
SPARK_4.3 := 4.3.0
CLIENT_4.0 := "pyspark-client==$(SPARK_4.0)"
CLIENT_4.1 := "pyspark-client==$(SPARK_4.1)"
build/spark-%/.installed: $(STAMP)
	@echo "Setting up build/spark-$* …"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/spark-$*
	@$(BIN)/uv pip install --quiet --python build/spark-$*/bin/python "pyspark==$(SPARK_$*)" $(CLIENT_$*)
	@# Everything else is that of the tests, behind this pyspark.
	@$(BIN)/python -c 'import os, sysconfig; print(os.getcwd(), sysconfig.get_path("purelib"), sep="\n")' > "$$(echo build/spark-$*/lib/python*/site-packages)/tests.pth"
	@touch $@

test-spark: build/spark-4.0/.installed build/spark-4.1/.installed build/spark-4.3/.installed ## Run the Spark jobs on Spark 4.0 and 4.1, and on 4.3 without Kafka, whose connector is not to be had yet
	@failed=0; for minor in 4.1 4.0 4.3; do echo "Spark $$minor"; \
	  build/spark-$$minor/bin/python -m pytest -q tests/spark --ignore tests/spark/clusters || failed=1; done; exit $$failed

test-lakes: build/spark-4.1/.installed ## Write the Spark jobs' tables to Delta (Spark 4.2) and Iceberg (Spark 4.1)
	@$(BIN)/python -m pytest tests/spark/clusters/lakes.py

test-kerberos: $(STAMP) ## Log in by Kerberos with a real KDC (needs the headers of MIT Kerberos, libkrb5-dev)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python gssapi
	@$(BIN)/python -m pytest tests/integration/admin/kerberos.py

unit: $(STAMP) ## Run the quick tests only (no broker, no Airflow, no Spark)
	@$(BIN)/python -m pytest tests/unit

exhaustive: $(STAMP) ## Run what is too long for every few minutes: tables over all error codes, random histories, all sources
	@$(BIN)/python -m pytest tests/exhaustive

component: $(STAMP) ## Run the tests that start a program or a server of their own, but no broker
	@$(BIN)/python -m pytest tests/component

lint: $(STAMP) ## Check style, types and the layers' import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

faults: $(STAMP) ## Hold the lease under five minutes of induced faults
	@MEMBERSHIP_FAULT_SECONDS=$${MEMBERSHIP_FAULT_SECONDS:-300} $(BIN)/python -m pytest -rP --timeout 1200 tests/integration/membership/test_membership_lease.py

campaign: $(STAMP) ## Run 10,000 simulated histories of clean-ups with faults and 200 real ones, then without each guard (build/campaign)
	@$(BIN)/python -m tests.campaign
	@$(BIN)/python -m tests.campaign.real
	@$(BIN)/python -m pytest tests/campaign/real/guards.py
	@$(BIN)/python -m tests.campaign --mutants

bench: $(STAMP) ## Measure against other clients, side by side in one run
	@$(BIN)/python -m tests.bench
	@$(BIN)/python -m tests.bench.membership
	@$(BIN)/python -m tests.bench.triggers
	@$(BIN)/python -m tests.bench.streaming

bench-quick: $(STAMP) ## Measure the 10,000-group part only
	@$(BIN)/python -m tests.bench --quick

bench-job: $(STAMP) ## Measure the whole job, step by step: 12,000, 60,000 and 200,000 groups, and lag
	@$(BIN)/python -m tests.bench.job --groups 12000 60000 200000

bench-spark: $(STAMP) ## Measure the Spark jobs on this machine, beside DuckDB and the core (about 15 minutes)
	@$(BIN)/python -m tests.bench_spark

reference: $(STAMP) ## Write docs/reference again, from the code
	@$(BIN)/python -m tests.reference

layers: $(STAMP) ## Draw the picture of the layers in docs/design.md again, from the imports
	@$(BIN)/python -m tests.layers

# Not --quiet: what is not printed, --strict does not count.
docs: $(STAMP) ## Build the documentation into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs.yml
	@! grep -rnoE '(src|<link [^>]*href)="?(https?:)?//[^" >]*|class="?mermaid' build/site --include='*.html' || { echo "A page loads something from another server."; exit 1; }

diagrams: $(STAMP) ## Draw the diagrams of the documentation anew (needs npm and Chromium)
	@$(BIN)/python -m tests.diagrams

clean: ## Remove everything that was made (the fetched jars too)
	@rm -rf build $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
