# The broker that a node is compared with, in turns; sourced by the scripts beside it, after node.sh. Either it runs:
#   PEER_URI=amqp://... PEER_PID=...
# or it is started by a command that returns once it accepts connections, and prints the id of its process last:
#   PEER_URI=amqp://... PEER_START='...'
# and is ended after the run by PEER_STOP='...', else by SIGTERM to that process. Without PEER_URI there is none.
# Sets `peer` to what `leveret bench` must know. With PEER_EXPECTED, what a RabbitMQ peer is known to do per second in
# the published line, check_peer tells whether what is measured now counts.
peer=()
started_peer=
load=
checked=

start_peer() {
  if [ -z "${PEER_URI:-}" ]; then return; fi
  local pid=${PEER_PID:-}
  if [ -n "${PEER_START:-}" ]; then
    # From here on it is ours to stop, whatever becomes of it. A broker may keep the command's output open, so that is a
    # file and no pipe.
    started_peer=unknown
    if ! bash -c "$PEER_START" >"$data/peer.log"; then
      echo "PEER_START failed: $PEER_START" >&2
      exit 2
    fi
    pid=$(tail -n 1 "$data/peer.log")
    if ! [ -e "/proc/$pid/stat" ]; then
      echo "the last line of what PEER_START prints must be the id of the broker's process, not '$pid'" >&2
      exit 2
    fi
    started_peer=$pid
  fi
  peer=(--vs "$PEER_URI")
  if [ -n "$pid" ]; then peer+=(--vs-pid "$pid"); fi
}

# Waits until it has gone, half a minute at most: the next one needs its ports.
stop_peer() {
  local pid=$started_peer
  started_peer=
  # In a trap, `return` alone would be the script's own failure, and end the trap.
  if [ -z "$pid" ]; then return 0; fi
  if [ -n "${PEER_STOP:-}" ]; then
    bash -c "$PEER_STOP" >&2 || echo "PEER_STOP failed: $PEER_STOP" >&2
  elif [ "$pid" != unknown ]; then
    kill "$pid" 2>/dev/null || true
  fi
  if [ "$pid" = unknown ]; then return 0; fi
  for _ in $(seq 300); do
    # A zombie has ended; whose child it is reaps it.
    if ! grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$pid/status"; then return 0; fi
    sleep 0.1
  done
  echo "the peer's process $pid is still there after 30 s; it is killed" >&2
  kill -KILL "$pid" 2>/dev/null || true
}

# check_peer WHEN: fails if the line is more than 20 % away. Kept in `out`; it needs Java and Maven. Once before whatever is
# measured beside a peer, and after it only if it was before.
check_peer() {
  if [ -z "${PEER_URI:-}" ] || [ "${PEER_EXPECTED:-0}" = 0 ]; then return 0; fi
  case $1 in
    before) if [ -n "$checked" ]; then return 0; fi ;;
    after) if [ -z "$checked" ]; then return 0; fi ;;
  esac
  make -s --no-print-directory -C tests/clients perf-test || return 1
  start_peer
  python3 -B benches/perf_test/published.py --class-path tests/clients/.installed/perf-test.classpath --uri "$PEER_URI" \
    --expected "$PEER_EXPECTED" --messages "${PEER_MESSAGES:-1000000}" --rounds "${BENCH_ROUNDS:-3}" --when "$1" \
    --file "$out/peer-check.json" &
  load=$!
  local result=0
  finish_load || result=$?
  stop_peer
  checked=yes
  return $result
}

# What runs beside this script, in the background so that it is ended with it: waits for it, with its exit code.
finish_load() {
  local result=0
  wait "$load" || result=$?
  load=
  return $result
}

end_load() {
  if [ -n "$load" ]; then kill "$load" 2>/dev/null && wait "$load" 2>/dev/null || true; fi
}
trap 'end_load; stop_peer; clean_up' EXIT
