# Results of several runs of `leveret bench` in one page; sourced by the scripts beside it, after node.sh and peer.sh. Takes `rounds`,
# `out` and, where a load runs by the clock, `seconds`.
failed=0
runs=()

start_results() {
  mkdir -p "$out"
  rm -f "$out"/{results.json,results.csv,index.html,peer-check.json}
}

# measure NAME ARGUMENT...: what isn't void is kept even if something is.
measure() {
  "$binary" bench --rounds "$rounds" --uri "$uri" --pid $node --metrics-port "$(port prometheus)" \
    --json-file "$data/$1.json" "${@:2}" || failed=1
  if [ -s "$data/$1.json" ]; then runs+=("$data/$1.json"); fi
}

# Ends the script: 1 if anything was void, or all is by the peer's line.
finish_results() {
  if [ ${#runs[@]} = 0 ]; then
    echo "nothing was measured" >&2
    exit 1
  fi
  "$binary" bench --from-json "${runs[@]}" --json-file "$out/results.json" --csv-file "$out/results.csv" \
    --html-file "$out/index.html"
  echo
  realpath "$out/results.json" "$out/results.csv" "$out/index.html"
  check_peer after || failed=1
  exit $failed
}
