# The commands of CONTRIBUTING.md.

DATA_DIR ?= ./data
FUZZ_SECONDS ?= 3600
SIM_SEEDS ?= 1000
SOAK_SECONDS ?= 3600
BENCH ?=

.PHONY: run test bench fuzz soak sim golden fmt deny build

build:
	cargo build --release --package leveret

run: build
	./target/release/leveret server --data-dir $(DATA_DIR)

test:
	.ci/test

bench: build
	benches/run $(BENCH)

fuzz:
	.ci/fuzz $(FUZZ_SECONDS) keep

fmt:
	cargo fmt --all

deny:
	command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny --all-features check
