# Each target makes .venv from requirements.lock by itself. Needed beforehand: Python 3.11+, Java 17+.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
# Spark's Python workers import the sources anew each: compiled once, not once a worker.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all matrix soak check bench docs results kafka lock clean java

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## install everything into .venv, from the lock file

$(STAMP): requirements.lock pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Headgate needs Python 3.11 or newer; '$(PYTHON)' is missing or older." >&2; \
	  echo "Install it, or name one: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "installing into .venv, once: one to three minutes, mostly without a word"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e . -e lab
	@touch $(STAMP)

java:
	@JAVA="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	V=$$("$$JAVA" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1); \
	if [ -z "$$V" ]; then \
	  echo "Spark needs Java 17 or newer, and no java was found: install one (for instance openjdk-17-jre-headless) or set JAVA_HOME." >&2; exit 1; \
	elif [ "$$V" -lt 17 ]; then \
	  echo "Spark needs Java 17 or newer; '$$JAVA' is version $$V: install a newer one or set JAVA_HOME." >&2; exit 1; fi

demo: java $(STAMP) ## a stream at several times this machine's capacity, without and with a gate
	$(BIN)/headgate demo

# Makes Spark's JVMs start in half the time; without it, tests take a minute or two longer, and say the same.
CLASSES := .venv/spark-classes.jsa
$(CLASSES): $(STAMP) | java
	-@$(BIN)/python -m tests.harness.warm.compiled_once > /dev/null 2>&1 & \
	  $(BIN)/python -m tests.harness.jvm.class_archive; wait

# What FAST=1 leaves out needs no Java.
test: $(if $(FAST),,java $(CLASSES)) $(STAMP) ## on a real Spark and a real Kafka broker: 10 to 25 minutes; FAST=1 without Spark: a minute or two
	$(if $(FAST),HEADGATE_FAST=1 )$(BIN)/python -m pytest -q -n 3 --dist loadscope --junitxml=out/tests/junit.xml $(if $(FAST), \
	  --ignore=tests/spark --ignore=tests/kafka --ignore=tests/lab/spark --ignore=tests/demo -m "not long and not spark and not slow",-m "not long")

test-all: java $(CLASSES) ## every test, also what takes minutes by nature (a federation, more kills, whole figures), with new random examples: 40 minutes
	HEADGATE_SEARCH=1 $(BIN)/python -m pytest -q -n 3 --dist loadscope --junitxml=out/tests/junit.xml

# Every Spark that Headgate runs on. The last one is .venv's; the others' environments have nothing but their
# PySpark (locks/), and take all else from .venv: the same lock file with one package replaced.
VERSIONS ?= 4.0 4.1 4.2 4.3
OWN := 4.3
OLDER = $(filter-out $(OWN),$(VERSIONS))

matrix: java $(STAMP) $(OLDER:%=.venv-spark-%/.installed) ## a short suite on every Spark; VERSIONS="4.0 4.1" for some, SHORT=1 for CI's part of it, FULL=1 for all tests on Spark
	@failed=; for version in $(VERSIONS); do \
	  bin=$(CURDIR)/.venv-spark-$$version/bin; [ $$version = $(OWN) ] && bin=$(CURDIR)/$(BIN); \
	  echo "Spark $$version: $$($$bin/python -c 'import pyspark; print(pyspark.__version__)')"; \
	  PYSPARK_PYTHON=$$bin/python $$bin/python -m pytest -q -n 2 --dist loadscope \
	    $(if $(FULL),tests/spark tests/kafka tests/demo -m "not long or matrix",tests/spark tests/kafka -m $(if $(SHORT),every_spark,matrix)) || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "make matrix: tests failed on Spark$$failed" >&2; exit 1; }

.venv-spark-%/.installed: locks/spark-%.lock | $(STAMP)
	rm -rf $(@D)
	$(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check -q --require-hashes --no-deps -r $<
	@packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	  echo "import site; site.addsitedir('$$($(BIN)/python -c "$$packages")')" \
	    > $$($(@D)/bin/python -c "$$packages")/the_rest_of_the_lock.pth
	@touch $@

locks/spark-%.lock:
	@echo "There is no Spark $* in locks/: VERSIONS may name $(patsubst locks/spark-%.lock,%,$(wildcard locks/*.lock)) and $(OWN)." >&2; exit 1

soak: java $(STAMP) ## a hundred SIGKILLs to a driver under load, and thousands of short batches: what is lost, what grows; two to three hours
	$(BIN)/headgate bench kills
	$(BIN)/python -m tests.soak

check: $(STAMP) ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: java $(STAMP) ## what a gate costs, as ratios from one run
	$(BIN)/headgate bench gate

docs: $(STAMP) ## the documentation site, in out/site; any warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs/site -d out/site-trees . out/site
	@echo "out/site/index.html"

results: $(STAMP) ## docs/results.md anew: what the papers claim, and whether we see it: five minutes
	$(BIN)/python -m headgate_lab.figures.results

kafka: java $(STAMP) ## a Kafka broker on this machine, until Ctrl-C
	$(BIN)/headgate kafka start

lock: $(STAMP) ## resolve requirements.lock anew
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --group lab --group docs --universal --generate-hashes \
	  --python-version 3.11 --custom-compile-command 'make lock' -q -o requirements.lock
	for version in $(filter-out $(OWN),$(VERSIONS)); do echo "pyspark==$$version.*" | $(BIN)/uv pip compile - --no-deps \
	  --generate-hashes --no-header --no-annotate --python-version 3.11 -q -o locks/spark-$$version.lock --upgrade || exit 1; done

clean: ## remove what make made
	rm -rf .venv .venv-spark-* .pytest_cache .mypy_cache .ruff_cache .hypothesis out spark-warehouse
