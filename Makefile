# The project's words. `make` alone lists them. Needs cargo and rustc with rustfmt and clippy, and a C compiler: to link,
# for libvipl, and for the tests of the C interface.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Extra flags of every build, such as --locked or --offline.
CARGO_FLAGS ?=
PREFIX ?= $(HOME)/.local
STUDY ?= torus-1024
ROWS ?=
SECONDS_A_TARGET ?= 10
FIRST ?= 1
COUNT ?= 1000
WORDS ?= all
# What the tests of the C interface call beside cargo.
C_TOOLS = "$${CC:-cc}" "$${CXX:-c++}" nm readelf

PYTHON ?= python3

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
VIADUCT := $(if $(filter /%,$(TARGET_DIR)),,./)$(TARGET_DIR)/release/viaduct

# The test is the one of the whole workspace: with the features of all packages nothing is built again.
RECORD = $(CARGO) test $(CARGO_FLAGS) --workspace --test record

PYTHON_ENV = $(TARGET_DIR)/python

# What the libraries for RDMA programs are made of.
RDMA_PACKAGES = --package viaduct-ibverbs --package viaduct-rdmacm --package viaduct-rdma-paths --package viaduct-simulated-time --package viaduct-vipl

.PHONY: help study release test check golden record accept-record levels bench fuzz-smoke matrix random mutants sequences chaos rdma rdma-test tests docs install uninstall python-test cargo c-tools python

help: ## list these words
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

study: release ## build what is missing, then run the 1024-node study (STUDY=name for another)
	@$(VIADUCT) run $(STUDY)

release: cargo ## build the viaduct command with optimisation
	@[ -x $(VIADUCT) ] || echo "building viaduct: about two minutes the first time"
	@$(CARGO) build $(CARGO_FLAGS) --quiet --release --package viaduct-cli

test: cargo c-tools ## every test, the record of results in a release build too, then the commands in the docs
	@$(MAKE) --no-print-directory --jobs=2 rdma tests
	$(CARGO) xtask test $(CARGO_FLAGS)
	VIADUCT_COMMAND=$(abspath $(VIADUCT)) $(RECORD)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target docs python-test

tests: cargo
	$(CARGO) test $(CARGO_FLAGS) --workspace --no-run --quiet

docs: rdma
	$(CARGO) xtask docs

python-test: cargo python ## the Python package: built without optimisation, formatted, typed, its examples and tests; the docs as a site
	@[ -x $(PYTHON_ENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_ENV)
	@cmp -s python/tests/requirements.txt $(PYTHON_ENV)/installed.txt || { \
	$(PYTHON_ENV)/bin/pip install --quiet --no-compile --disable-pip-version-check -r python/tests/requirements.txt \
	&& cp python/tests/requirements.txt $(PYTHON_ENV)/installed.txt; }
	$(PYTHON_ENV)/bin/ruff format --check python examples/questions docs/levels
	$(PYTHON_ENV)/bin/ruff check python examples/questions docs/levels
	PATH="$(abspath $(PYTHON_ENV))/bin:$$PATH" VIRTUAL_ENV=$(abspath $(PYTHON_ENV)) \
	$(PYTHON_ENV)/bin/maturin develop --quiet $(CARGO_FLAGS)
	@[ "$$(uname -m)" != x86_64 ] || { $(CARGO) build $(CARGO_FLAGS) --quiet --release $(RDMA_PACKAGES) && packaging/link-verbs.sh $(TARGET_DIR)/release python/viaduct/rdma; }
	$(PYTHON_ENV)/bin/mypy --no-error-summary python/viaduct python/tests
	$(PYTHON_ENV)/bin/python -m mypy.stubtest viaduct._native --concise
	$(PYTHON_ENV)/bin/python -m pytest -q
	$(PYTHON_ENV)/bin/mkdocs build --quiet --strict --site-dir $(abspath $(TARGET_DIR))/site
	@! grep -rl --include='*.html' '```' $(abspath $(TARGET_DIR))/site || { echo "these pages show a block of code as text: see docs/site_hooks.py" >&2; exit 1; }

check: cargo ## format, lints, rustdoc, dependency rules and tidiness
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(CARGO_FLAGS) --workspace --no-deps --quiet
	$(CARGO) xtask tidy

golden: cargo c-tools ## accept what the snapshot tests print as right; read the diff before you commit it
	INSTA_UPDATE=always $(CARGO) test $(CARGO_FLAGS) --workspace --no-fail-fast

record: cargo release ## compare all results with those recorded, of longer runs too, in a release build
	VIADUCT_COMMAND=$(abspath $(VIADUCT)) VIADUCT_RECORD=full $(RECORD)

accept-record: cargo release ## take what comes out now as the record; say in CHANGELOG.md what was and what is
	VIADUCT_COMMAND=$(abspath $(VIADUCT)) VIADUCT_RECORD=full,accept $(RECORD)

levels: release python ## measure anew how far the levels of a network differ, for docs/levels.md and the warnings of check and run: three minutes
	$(PYTHON) docs/levels/table.py $(abspath $(VIADUCT))

bench: rdma ## speed and memory against the targets, beside SimGrid, other transports and RDMA programs where they are installed
	@$(CARGO) build $(CARGO_FLAGS) --quiet --release --package viaduct-vipl
	@$(CARGO) run $(CARGO_FLAGS) --quiet --release --package viaduct-bench -- --viaduct $(VIADUCT)
	@$(CARGO) run $(CARGO_FLAGS) --quiet --release --package viaduct-bench -- transports --viaduct $(VIADUCT)

fuzz-smoke: cargo ## mutate the seed inputs of each fuzz target for SECONDS_A_TARGET seconds, on stable Rust
	FUZZ_SECONDS=$(SECONDS_A_TARGET) $(CARGO) test $(CARGO_FLAGS) --package viaduct-xtask --test fuzz_smoke -- --nocapture

matrix: cargo ## run every workload on every adapter, network and level with every fault, not only all pairs: eight million, two days; with WORDS="packets pause" those that have these words in their names
	VIADUCT_MATRIX="$(WORDS)" $(CARGO) test $(CARGO_FLAGS) --package viaduct-scenario --test matrix

random: cargo release ## draw COUNT random studies, from seed FIRST on, and have every command look at each
	VIADUCT_RANDOM="$(FIRST) $(COUNT)" VIADUCT_COMMAND=$(abspath $(VIADUCT)) $(CARGO) test $(CARGO_FLAGS) --workspace --test random -- --nocapture

mutants: cargo c-tools ## break each rule of VIA and of verbs in turn: the suite of every fabric must notice; twelve minutes
	$(CARGO) test $(CARGO_FLAGS) --no-fail-fast --package viaduct-threads --package viaduct-shm --package viaduct-programs --package viaduct-vipl --package viaduct-rdma --test conformance -- --mutants
	$(CARGO) test $(CARGO_FLAGS) --package viaduct-programs --test verbs -- --mutants

sequences: cargo ## a million random sequences of operations on queue pairs against a reference: a minute
	VIADUCT_SEQUENCES=1000000 $(CARGO) test $(CARGO_FLAGS) --package viaduct-core --test integration -- verbs_model

chaos: cargo ## kill peers of the shared-memory fabric ten thousand times and at every store, lie to it for minutes: half an hour
	SHM_KILLS=10000 SHM_POINT_STRIDE=1 SHM_HOSTILE_SECONDS=120 $(CARGO) test $(CARGO_FLAGS) --package viaduct-shm --lib chaos -- --nocapture
	SHM_SHUTTLE=1000000 $(CARGO) test $(CARGO_FLAGS) --package viaduct-shm --test shuttle

rdma: release ## build the libraries for RDMA programs, where viaduct rdma finds them
	@$(CARGO) build $(CARGO_FLAGS) --quiet --release $(RDMA_PACKAGES)
	@packaging/link-verbs.sh $(TARGET_DIR)/release $(TARGET_DIR)/release/rdma

rdma-test: rdma ## run the stock RDMA programs of faces/rdma-programs/rows.toml, then rping in a root of its own; ROWS="ucp rc_verbs" for some, ROWS=--short for a sample
	@$(CARGO) build $(CARGO_FLAGS) --quiet --release --package viaduct-rdma-programs
	$(TARGET_DIR)/release/rdma-programs --viaduct $(VIADUCT) $(TARGET_DIR)/release/rdma $(ROWS)
	@packaging/fresh-root.sh $(TARGET_DIR)/release || [ $$? = 77 ]

install: cargo ## install the command viaduct and the C libraries libvipl and libam, with headers and man pages, into PREFIX
	$(CARGO) build $(CARGO_FLAGS) --release --package viaduct-cli --package viaduct-vipl --package viaduct-libam $(RDMA_PACKAGES)
	packaging/install.sh $(TARGET_DIR)/release $(abspath $(PREFIX))

uninstall: ## remove from PREFIX what make install put there
	packaging/uninstall.sh $(abspath $(PREFIX))

cargo:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust with rustup (rustup.rs), then run this again" >&2; exit 1; }

python:
	@$(PYTHON) -c "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { echo "Python 3.11 or later with its module venv is missing (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }

c-tools:
	@missing=; for tool in $(C_TOOLS); do command -v "$$tool" >/dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || { echo "missing:$$missing; the tests of the C interface need a C and C++ compiler and binutils (Debian, Ubuntu: apt install build-essential)" >&2; exit 1; }
	@command -v rping >/dev/null || { echo "missing: rping, which the docs show (Debian, Ubuntu: apt install rdmacm-utils)" >&2; exit 1; }
	@command -v ibv_rc_pingpong >/dev/null || { echo "missing: ibv_rc_pingpong, which the docs show (Debian, Ubuntu: apt install ibverbs-utils)" >&2; exit 1; }
	@for header in infiniband/verbs.h rdma/rdma_cma.h; do \
	printf '#include <%s>\n' "$$header" | "$${CC:-cc}" -E -x c - >/dev/null 2>&1 || { echo "missing: $$header; the tests of the interface of RDMA programs need it (Debian, Ubuntu: apt install libibverbs-dev librdmacm-dev)" >&2; exit 1; }; done
