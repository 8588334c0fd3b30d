#!/usr/bin/env bash
# Renews cmd/parley/default.pgo: where a server spends its processor time under the loads
# that matter. The compiler optimizes ./parley by it. Takes two minutes on a quiet machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
address=127.0.0.1:18080 admin=127.0.0.1:18081 seconds=10
./parley serve --dev --data "$work/data" --listen "$address" --admin-listen "$admin" >"$work/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null && wait "$server"; rm -rf "$work"' EXIT
until grep -q 'listening on' "$work/log"; do kill -0 "$server" || { cat "$work/log" >&2; exit 1; }; sleep 0.1; done
for load in 'send --clients 64' 'send --clients 256' 'reply --clients 64' 'inbox --clients 64'; do
  echo "profiling: $load"
  # shellcheck disable=SC2086
  ./parley-bench run $load --repeats 1 --duration $((seconds + 5))s --url "http://$address" --pid "$server" --out "$work/out" >"$work/bench" 2>&1 &
  bench=$!
  until grep -q 'started,' "$work/bench"; do kill -0 "$bench"; sleep 0.1; done
  sleep 2 # the warm-up
  curl -sSf -H "Authorization: Bearer $(cat "$work/data/admin.token")" "http://$admin/debug/pprof/profile?seconds=$seconds" >"$work/${load// /}.pb"
  wait "$bench"
done
"${GO:-go}" tool pprof -proto "$work"/*.pb >"$work/profile"
mv "$work/profile" cmd/parley/default.pgo
