# The broker that a node is compared with, in turns; sourced by the scripts beside it, after node.sh. Either it runs:
#   PEER_URI=amqp://... PEER_PID=...
# or it is started by a command that returns once it accepts connections, and prints the id of its process last:
#   PEER_URI=amqp://... PEER_START='...'
# and is ended after the run by PEER_STOP='...', else by SIGTERM to that process. Without PEER_URI there is none.
# Sets `peer` to what `leveret bench` must know.
peer=()
started_peer=

start_peer() {
  if [ -z "${PEER_URI:-}" ]; then return; fi
  local pid=${PEER_PID:-}
  if [ -n "${PEER_START:-}" ]; then
    pid=$(bash -c "$PEER_START" | tail -n 1)
    if ! kill -0 "$pid" 2>/dev/null; then
      echo "the last line of what PEER_START prints must be the id of the broker's process, not '$pid'" >&2
      exit 2
    fi
    started_peer=$pid
  fi
  peer=(--vs "$PEER_URI")
  if [ -n "$pid" ]; then peer+=(--vs-pid "$pid"); fi
}

stop_peer() {
  if [ -z "$started_peer" ]; then return; fi
  if [ -n "${PEER_STOP:-}" ]; then
    bash -c "$PEER_STOP" || true
  else
    kill "$started_peer" 2>/dev/null || true
    # It may be no child of this shell.
    while kill -0 "$started_peer" 2>/dev/null; do sleep 0.1; done
  fi
  started_peer=
}
trap 'stop_peer; clean_up' EXIT
