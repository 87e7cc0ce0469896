# The commands of CONTRIBUTING.md.

DATA_DIR ?= ./data
FUZZ_SECONDS ?= 3600
SIM_SEEDS ?= 20000
SOAK_SECONDS ?= 3600
BENCH ?=
BENCH_ROWS ?=
export BENCH_ROWS

.PHONY: run bench-cluster cluster cluster-measures cluster-queues cluster-transfers cluster-partitions cluster-restarts engine-measures test check bench bench-all bench-long bench-perf-test bench-start bench-turns fuzz soak sim sim-cluster sim-model sim-oracle golden fixtures kill powercut scan fmt deny build dist dist-test image image-test instructions instructions-check

build:
	cargo build --release --package leveret

# Built in half the time of a release.
run:
	cargo build --profile fast --package leveret
	$${CARGO_TARGET_DIR:-target}/fast/leveret server --data-dir $(DATA_DIR)

# Three nodes on this machine, 127.0.0.1 to 127.0.0.3, that form a cluster; they end with this command.
cluster:
	cargo build --profile fast --package leveret
	packaging/cluster $${CARGO_TARGET_DIR:-target}/fast/leveret $(DATA_DIR)

test:
	.ci/test

# Before each commit: with a warm target, under three minutes after a change in one file.
check:
	.ci/test format lint tidy pure

# A tarball and a Debian package of the release build, in target/dist.
dist:
	packaging/dist

# The packages of the release build, installed in a root of their own: as root, on Debian.
dist-test: dist
	packaging/check $${CARGO_TARGET_DIR:-target}/release/leveret
	LEVERET_BIN=$$(realpath $${CARGO_TARGET_DIR:-target}/release/leveret) \
	  cargo test --profile ci --package leveret-tests --test package -- --nocapture

# An image for containers, of the release build: an archive in target/dist, without an engine or a registry.
image:
	packaging/image/build

# The image of the release build is as small as promised, and runs in Podman as root.
image-test: image
	packaging/image/check $${CARGO_TARGET_DIR:-target}/dist/leveret-*.oci.tar
	LEVERET_BIN=$$(realpath $${CARGO_TARGET_DIR:-target}/release/leveret) \
	  cargo test --profile ci --package leveret-tests --test image -- --nocapture

bench: build
	benches/run $(BENCH)

# Compares the instruction counts of hot functions with the stored figures.
instructions-check:
	.ci/test tools instructions

# Counts the instructions of hot functions again, and keeps the figures.
instructions:
	cargo xtask instructions renew

# The whole table, or BENCH_ROWS of it, and what takes long: one page each, see docs/benchmarks.md.
bench-all: build
	benches/all

bench-long: build
	benches/long

# Quorum queues of three nodes on this machine, with one member and with three; options for leveret bench in BENCH.
bench-cluster: build
	benches/cluster $(BENCH)

# Rows of it by RabbitMQ's PerfTest, which needs Java and Maven.
bench-perf-test: build
	benches/perf-test

# How fast a node starts, and how much memory it has while nothing happens.
bench-start: build
	benches/start

# How long a core is busy at a stretch for clients that do something to 60,000 things at once.
bench-turns:
	cargo run --release --package leveret-instructions --bin leveret-turns

fuzz:
	.ci/fuzz $(FUZZ_SECONDS) keep

fmt:
	cargo fmt --all

deny:
	command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny --all-features check

# Asks a RabbitMQ 4.3 that runs on this machine, with guest/guest as administrator.
RABBITMQ_AMQP_PORT ?= 5672
RABBITMQ_HTTP_PORT ?= 15672
# Its plugin rabbitmq_stream must be enabled.
RABBITMQ_STREAM_PORT ?= 5552
# What runs rabbitmqctl there, and another tool if its first word is `diagnostics`, `plugins` or `upgrade`.
RABBITMQ_CTL ?= rabbitmqctl
# The arguments of tests/golden/cluster.py, for three nodes that are one cluster; empty to leave its recording as it is.
RABBITMQ_CLUSTER ?=

golden:
	$(MAKE) -C tests/clients pika proton-python
	tests/clients/.installed/venv/bin/python tests/golden/amqp091-errors.py record $(RABBITMQ_AMQP_PORT) \
	  $(RABBITMQ_HTTP_PORT) >target/amqp091-errors.json
	mv target/amqp091-errors.json tests/golden/amqp091-errors.json
	tests/clients/.installed/venv/bin/python tests/golden/message-conversion.py $(RABBITMQ_AMQP_PORT) \
	  >target/conversion.json
	CONVERSION_RECORDED=$(CURDIR)/target/conversion.json CONVERSION_TABLE=all \
	  cargo test --profile ci --package leveret-message --test conversion -- --ignored write_the_tables
	python3 tests/golden/amqp10-management.py record $(RABBITMQ_AMQP_PORT) >target/amqp10-management.json
	mv target/amqp10-management.json tests/golden/amqp10-management.json
	tests/clients/.installed/venv/bin/python tests/golden/streams.py record $(RABBITMQ_AMQP_PORT) >target/streams.json
	mv target/streams.json tests/golden/streams.json
	python3 tests/golden/stream-protocol.py record $(RABBITMQ_STREAM_PORT) $(RABBITMQ_HTTP_PORT) >target/stream-protocol.json
	mv target/stream-protocol.json tests/golden/stream-protocol.json
	python3 tests/golden/stream-protocol.py frames $(RABBITMQ_STREAM_PORT) $(RABBITMQ_HTTP_PORT) >target/stream-frames.txt
	mv target/stream-frames.txt crates/stream-protocol/tests/recorded.txt
	tests/clients/.installed/venv/bin/python tests/golden/filters.py $(RABBITMQ_AMQP_PORT) >target/filters.json
	mv target/filters.json crates/selector/tests/selector/rabbitmq.json
	python3 tests/golden/policies.py record $(RABBITMQ_HTTP_PORT) >target/policies.json
	mv target/policies.json tests/golden/policies.json
	[ -z "$(RABBITMQ_CLUSTER)" ] || python3 tests/golden/cluster.py $(RABBITMQ_CLUSTER) >target/cluster.json
	[ -z "$(RABBITMQ_CLUSTER)" ] || mv target/cluster.json tests/golden/cluster/http.json
	python3 tests/golden/ctl.py "$(RABBITMQ_CTL)" $(RABBITMQ_AMQP_PORT) >target/ctl.json
	mv target/ctl.json tests/golden/ctl/answers.json
	RECORD_GOLDEN=$$(date +%F) LEVERET_TEST_URI=amqp://127.0.0.1:$(RABBITMQ_AMQP_PORT) \
	  LEVERET_TEST_HTTP_URI=http://127.0.0.1:$(RABBITMQ_HTTP_PORT) \
	  cargo test --profile ci --package leveret-tests --test golden_amqp10

# The data directories that later versions must be able to read, by the present one. Only before it is released.
fixtures:
	cargo build --profile ci --package leveret
	cargo test --profile ci --package leveret-tests --test offline -- --ignored --nocapture

# The long tests, then a load over and over, each message verified; now and then the node is killed and started again.
soak: build
	benches/soak $(SOAK_SECONDS)

# What testssl.sh (Debian's package) says of the listeners with TLS.
scan: build
	cargo test --release --package leveret-tests --test tls -- --ignored

# As root: power cuts through a file system of ours, CUTS of them.
CUTS ?= 200

powercut: build
	LEVERET_BIN=$$(realpath target/release/leveret) cargo run --release --manifest-path tests/powercut/Cargo.toml -- $(CUTS)

# Kills a node by SIGKILL this often, under a verified load.
KILL_ROUNDS ?= 1000

sim-model:
	cargo test --release --package leveret-sim --test cluster_model -- --ignored --nocapture

sim-oracle:
	cd sim/oracle && LEVERET_CLUSTER_SEEDS=0..$(SIM_SEEDS) cargo test --release both_engines -- --nocapture

sim-cluster:
	LEVERET_CLUSTER_SEEDS=0..$(SIM_SEEDS) cargo test --profile ci --package leveret-sim --features planted-bugs --test cluster_seeds \
	  promises -- --nocapture
	LEVERET_METADATA_SEEDS=0..$(SIM_SEEDS) cargo test --profile ci --package leveret-sim --features planted-bugs --test cluster_metadata \
	  linearizable -- --nocapture
	LEVERET_REPLICA_SEEDS=$(SIM_SEEDS) cargo test --profile ci --package leveret-sim --features planted-bugs --test replicas
	LEVERET_CLIENT_SEEDS=1..$(SIM_SEEDS) cargo test --profile ci --package leveret-sim --features planted-bugs --test placed_clients

# Placements beside the bare engine, on real files in TMPDIR, and the simulator beside real time.
engine-measures:
	cargo test --release --package leveret-sim --test cluster_measures -- --ignored --nocapture --test-threads 1

# All nodes of a cluster of three end and start in any order, 300 times.
cluster-restarts: build
	LEVERET_BIN=$$(realpath target/release/leveret) \
	  cargo test --release --package leveret-tests --test cluster three_hundred -- --ignored --nocapture

# A leadership is handed over this often under load, and nothing may come twice.
TRANSFERS ?= 100

cluster-transfers: build
	LEVERET_BIN=$$(realpath target/release/leveret) LEVERET_TRANSFERS=$(TRANSFERS) \
	  cargo test --release --package leveret-tests --test cluster nothing_comes_again -- --nocapture

# Figures of a cluster's metadata beside a node that is alone, in turns: all, or those that MEASURES names (declare import join idle).
MEASURES ?=

cluster-measures: build
	LEVERET_BIN=$$(realpath target/release/leveret) LEVERET_MEASURES="$(MEASURES)" \
	  cargo test --release --package leveret-tests --test cluster figures_of -- --ignored --nocapture

# Clients change the metadata of three nodes under partitions, pauses and kills, for PARTITIONS faults.
PARTITIONS ?= 200

cluster-partitions: build
	LEVERET_BIN=$$(realpath target/release/leveret) LEVERET_PARTITIONS=$(PARTITIONS) \
	  cargo test --release --package leveret-tests --test cluster for_a_long_time -- --ignored --nocapture

# Clients of a replicated queue under partitions, pauses and kills of three nodes, in each of RabbitMQ's Jepsen configurations: so many faults.
QUEUE_FAULTS ?= 10

cluster-queues: build
	LEVERET_BIN=$$(realpath target/release/leveret) LEVERET_QUEUE_FAULTS=$(QUEUE_FAULTS) \
	  cargo test --release --package leveret-tests --test cluster total_queues_lose -- --ignored --nocapture

kill: build
	LEVERET_BIN=$$(realpath target/release/leveret) LEVERET_KILL_ROUNDS=$(KILL_ROUNDS) \
	  cargo test --release --package leveret-tests --test kill_loop -- --nocapture

sim:
	SIM_BUGS=all SIM_SEEDS=$(SIM_SEEDS) cargo test --profile ci --package leveret-sim --features planted-bugs -- --nocapture
