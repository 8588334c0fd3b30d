#!/bin/sh
# Prints how many lines of Go the repository has, by what they are for: a row each of the table in
# docs/architecture.md. The binary is what ./cmd/parley is built of; support is what only tests and
# checks use.
set -eu
cd "$(dirname "$0")/.."
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT
find . -name '*.go' -not -path './.git/*' -not -path '*/node_modules/*' | sed 's|^\./||' | LC_ALL=C sort >"$rows/all"
go list -deps -f '{{if .Module}}{{if eq .Module.Path "parley"}}{{.Dir}}{{end}}{{end}}' ./cmd/parley |
	sed "s|^$(pwd -P)||; s|^/||; s|\$|/|; s|^/\$||" >"$rows/binary"
xargs grep -lE '^// Code generated .* DO NOT EDIT\.$' <"$rows/all" >"$rows/generated" || true
awk -v generated="$rows/generated" -v binary="$rows/binary" '
	BEGIN {
		while ((getline f <generated) > 0) made[f]
		while ((getline d <binary) > 0) in_binary[d]
	}
	{
		dir = $0
		sub("[^/]*$", "", dir)
		kind = $0 in made ? "generated" : $0 ~ /_test\.go$/ ? "tests" : dir in in_binary ? "binary" : $0 ~ /^bench\// ? "bench" : "support"
		print kind " " $0
	}' "$rows/all" >"$rows/kinds"
for kind in binary bench support tests generated; do
	lines=$(sed -n "s/^$kind //p" "$rows/kinds" | xargs cat | wc -l)
	printf '%s %d\n' "$kind" "$lines"
done
