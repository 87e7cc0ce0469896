# Starts a node on free loopback ports, and a second one where that is asked for; sourced by the scripts beside it. Sets
# `data`, `node` (its process) and `uri`, and ends the nodes and removes their data when the script ends.
binary=${LEVERET_BIN:-target/release/leveret}
data=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/leveret-bench.XXXXXX")
node= twin=

# start_node ARGUMENT...: these after those that every node has.
start_node() {
  rm -f "$data/node/ports.json"
  "$binary" server --data-dir "$data/node" --set listeners.tcp.1=127.0.0.1:0 \
    --set management.tcp.ip=127.0.0.1 --set management.tcp.port=0 --set prometheus.tcp.ip=127.0.0.1 \
    --set prometheus.tcp.port=0 "$@" >>"$data/server.log" 2>&1 &
  node=$!
  while [ ! -f "$data/node/ports.json" ]; do
    kill -0 $node 2>/dev/null || { cat "$data/server.log"; exit 1; }
    sleep 0.01
  done
  uri=amqp://guest:guest@127.0.0.1:$(port amqp)
}

# port NAME: from ports.json.
port() { sed "s/.*\"$1\":\([0-9]*\).*/\1/" "$data/node/ports.json"; }

# end_node SIGNAL: waits for it; its exit code in `status`.
end_node() {
  kill -s "$1" $node
  status=0
  wait $node || status=$?
  node=
}

# A second node, for what is compared with it in turns: `twin` (its process) and `twin_uri`.
start_twin() {
  read -r twin twin_uri < <(
    data=$(mktemp -d "$data/twin.XXXXXX")
    start_node
    echo "$node $uri"
  )
}

# It isn't a child of this shell, and is looked at until it has gone.
end_twin() {
  kill "$twin"
  while kill -0 "$twin" 2>/dev/null; do sleep 0.05; done
  twin=
}

clean_up() {
  # Of a node that has failed, the data goes too.
  if [ -n "$twin" ]; then end_twin || true; fi
  if [ -n "$node" ]; then kill $node 2>/dev/null && wait $node 2>/dev/null || true; fi
  rm -rf "$data"
}
trap clean_up EXIT
