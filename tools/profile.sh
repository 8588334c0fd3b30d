#!/usr/bin/env bash
# Renews cmd/parley/default.pgo: where a server, a node that leads and one that follows spend
# their processor time under the loads that matter. The compiler optimizes ./parley by it.
# Takes three minutes on a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
seconds=10
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# serve NAME NUMBER FLAGS starts a server at port 18080 + NUMBER, its admin address one hundred above.
serve() {
  ./parley serve --dev --data "$work/$1" --listen "127.0.0.1:$((18080 + $2))" --admin-listen "127.0.0.1:$((18180 + $2))" "${@:3}" >"$work/$1.log" 2>&1 &
  servers+=($!)
  until curl -sf "http://127.0.0.1:$((18080 + $2))/readyz" >/dev/null; do kill -0 "${servers[-1]}" || { cat "$work/$1.log" >&2; exit 1; }; sleep 0.1; done
}

# profile NAME NUMBER OUT profiles that server.
profile() {
  curl -sSf -H "Authorization: Bearer $(cat "$work/$1/admin.token")" "http://127.0.0.1:$((18180 + $2))/debug/pprof/profile?seconds=$seconds" >"$work/$3.pb"
}

# load NUMBER LOAD PROFILES puts a load on a server, and calls profile with each of PROFILES at a time.
load() {
  echo "profiling: $2"
  # shellcheck disable=SC2086
  ./parley-bench run $2 --repeats 1 --duration $((seconds + 5))s --url "http://127.0.0.1:$((18080 + $1))" --out "$work/out" >"$work/bench" 2>&1 &
  local bench=$! taken=()
  until grep -q 'started,' "$work/bench"; do kill -0 "$bench"; sleep 0.1; done
  sleep 2 # the warm-up
  for one in "${@:3}"; do
    # shellcheck disable=SC2086
    profile $one &
    taken+=($!)
  done
  for one in "${taken[@]}" "$bench"; do wait "$one"; done
}

serve single 0
for one in 'send --clients 64' 'send --clients 256' 'reply --clients 64' 'inbox --clients 64'; do
  load 0 "$one" "single 0 ${one// /}"
done
kill "${servers[@]}" && wait "${servers[@]}"

./parley cluster init --data "$work/a" --advertise 127.0.0.1:18281 --node-name a >/dev/null
serve a 1 --cluster-listen 127.0.0.1:18281
for one in 'b 2' 'c 3'; do
  token=$(./parley cluster token --data "$work/a" --admin http://127.0.0.1:18181)
  # shellcheck disable=SC2086
  serve $one --node-name "${one% *}" --cluster-listen "127.0.0.1:1828${one#* }" --join 127.0.0.1:18281 --join-token "$token"
done
load 1 'send --clients 256' 'a 1 leads' 'c 3 copies'
load 2 'send --clients 256' 'a 1 decides' 'b 2 forwards'

"${GO:-go}" tool pprof -proto "$work"/*.pb >"$work/profile"
mv "$work/profile" cmd/parley/default.pgo
