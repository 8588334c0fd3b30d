# Everything that is typed here runs the same in .ci/run. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules

GO ?= go
CI ?= false
FUZZTIME ?= 5s
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || true)
# Tools live in a module of their own: the product's go.mod names none of them.
TOOL := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
# Without the checkout's path in what is compiled, another checkout finds it in the
# build cache, and what go vet said about it. Only the server itself is optimized by its
# profile: otherwise every package would be compiled twice.
export GOFLAGS := $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath -pgo=off
# The data race detector needs cgo, the product does not.
export CGO_ENABLED := 0

# These build the binary and look at it from outside, which the test cache does
# not notice: they always run. The packages of the black box run one after the other: the
# tests of each run in parallel already, and some measure how fast the server answers.
BLACKBOX := ./cmd/parley/blackbox
JUDGES := ./cmd/parley/judges
INSIDE = $$($(GO) list ./... | grep -v -e /blackbox/ -e /judges$$)
# Where goroutines meet, and where secrets are judged. What is long only because it
# tries much is left to the unit tests.
RACED := ./cluster/consensus ./actors ./actors/delivery ./actors/host ./actors/query ./actors/query/cache ./actors/query/export ./persistence ./persistence/admission ./persistence/notify ./persistence/keyring ./persistence/seal ./http ./http/access ./http/auth ./http/connlimit ./http/directory ./http/egress ./http/httpserver ./http/limit ./http/messages ./http/overload ./http/streams ./http/webhooks
# lint has every package vetted. These tests leave much garbage and keep little
# alive: collecting it less often saves a quarter of their CPU.
EASY := GOGC=400 GOMEMLIMIT=2GiB
FLAGS := -vet=off -timeout 25m -parallel 8
# Runs the tests of PACKAGES. Machines of CI stall for seconds: up to eight tests that
# fail, a subtest and those around it one each, are run once more, each alone. One that
# then passes is listed as unstable, and should be mended; a data race, a panic or a package without a verdict is never forgiven.
RUN = @unstable=$$(mktemp); trap 'rm -f "$$unstable"' EXIT; set -x; \
	$(1) $(TOOL) gotestsum --format $(2) --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures 8 --rerun-fails-run-root-test \
		--rerun-fails-abort-on-data-race --rerun-fails-report "$$unstable" --packages "$$(echo $(3))" -- $(4); \
	{ set +x; } 2>/dev/null; \
	if [ -s "$$unstable" ]; then printf '\n!! UNSTABLE, failed once and then passed:\n' >&2; cat "$$unstable" >&2; fi
# A step says what it is about to do, so that a log reads as a list.
SAY = printf '\n== %s\n'
# What is left out is said so that nobody can overlook it; in CI it is a failure.
LEFT_OUT = printf '\n!! NOT CHECKED: %s\n\n' "$$why" >&2; [ "$(CI)" != true ]

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-21s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# The bench is a module of its own: nothing it needs is in the product's go.mod.
.PHONY: build
build: server ## Build ./parley and ./parley-bench, static binaries
	cd bench && $(GO) build -trimpath -ldflags "-s -w" -o ../parley-bench ./cmd/parley-bench

.PHONY: server
server: ## Build ./parley alone
	@[ -x parley ] || echo "building ./parley: the first time takes two to four minutes"
	$(GO) build -pgo=auto -trimpath -ldflags "-s -w -X parley/cmd/parley/program.version=$(VERSION)" -o parley ./cmd/parley

.PHONY: run
run: server ## Start a server for development on ./parley-data
	./parley serve --dev --hints --data ./parley-data

.PHONY: demo
demo: server ## Watch two agents talk, the server die and everything come back
	./parley demo

# Two steps run at a time, in this order, so that one computes while the other
# waits. The black box and the judges judge how fast the server answers: the
# other steps leave the processors to them, and in this order they do not meet.
STEPS := blackbox lint race judges unit check-generated
PATIENT := lint race unit check-generated
LOGS := bin/test
# The binary that the black box, the judges and the bench's tests run.
BUILT := $(CURDIR)/$(LOGS)/parley
BUILD = $(GO) build -ldflags "-s -w" -o $(BUILT) ./cmd/parley

.PHONY: test
test: ## Everything that CI runs, two steps at a time; each is printed when it ends
	@rm -rf $(LOGS) && mkdir -p $(LOGS)
	$(BUILD)
	@$(SAY) "two steps at a time: $(STEPS)"
	@echo "each is printed when it ends; until then see $(LOGS)/*.log"
	@PARLEY_BIN=$(BUILT) $(MAKE) --no-print-directory --jobs=2 $(STEPS:%=step-%)
	@if compgen -G '$(LOGS)/*.failed' >/dev/null; then \
		for log in $(LOGS)/*.failed; do cat "$$log"; done; \
		printf '\n!! FAILED: %s\n\n' "$$(cd $(LOGS) && ls *.failed | sed 's/.failed//' | xargs)" >&2; exit 1; fi
	@$(SAY) "all checks passed"

# A step never fails here, so that the others go on: test prints at its end what failed.
step-%: FORCE
	@began=$$SECONDS; log=$(LOGS)/$*.log; \
	if $(if $(filter $*,$(PATIENT)),nice -n 10) $(MAKE) --no-print-directory $* >$$log 2>&1; \
	then cat $$log; verdict=passed; \
	else mv $$log $(LOGS)/$*.failed; verdict="FAILED, its output is below"; fi; \
	printf '\n== %s: %s, %d s\n' $* "$$verdict" $$((SECONDS - began))

# Several nodes are measured behind it.
.PHONY: haproxy
haproxy:
	@if ! command -v haproxy >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(SAY) "installing haproxy"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends haproxy >/dev/null || true; \
	fi; \
	command -v haproxy >/dev/null || \
		{ why="haproxy is not installed (apt-get install haproxy): the bench of several nodes, and the load balancer of the examples, are left out"; $(LEFT_OUT); }

.PHONY: unit
unit: haproxy ## Layers, rules, journal, doors, command line
	@$(SAY) "unit, layer and command-line tests"
	$(call RUN,$(EASY),standard-quiet,$(INSIDE),$(FLAGS))
	cd bench && $(GO) test $(FLAGS) ./...

.PHONY: blackbox
blackbox: haproxy ## The binary through HTTP, with one journal, with four, and as three nodes behind a proxy
	@$(SAY) "black box"
	@mkdir -p $(LOGS)
	[ -n "$${PARLEY_BIN:-}" ] || $(BUILD)
	$(call RUN,PARLEY_BIN=$${PARLEY_BIN:-$(BUILT)},standard-quiet,$(BLACKBOX)/...,-count=1 -timeout 30m -p 1)

.PHONY: test-short
test-short: ## The quick part of the tests
	$(GO) test -short $(INSIDE)

.PHONY: race
race: ## The concurrent packages under the race detector (needs gcc)
	@$(SAY) "race detector"
	@if command -v gcc >/dev/null; then $(MAKE) --no-print-directory raced; \
	else why="data races in $(RACED): there is no gcc here"; $(LEFT_OUT); fi

.PHONY: raced
raced:
	$(call RUN,CGO_ENABLED=1 $(EASY),standard-quiet,$(RACED),$(FLAGS) -race -short)

.PHONY: judges
judges: ## The real binary judged by other people's clients, which cmd/parley/judges/README.md lists; its pages by axe-core in Chromium
	@$(SAY) "judges: other people's clients"
	@if command -v node >/dev/null && command -v npm >/dev/null; then $(MAKE) --no-print-directory judged; \
	else why="JOSE, OAuth, SSE, HPKE, webhooks and A2A against npm packages and a2a-go: there is no node or npm here"; $(LEFT_OUT); fi

.PHONY: judged
judged:
	$(call RUN,CI=$(CI),standard-verbose,$(JUDGES),-v -count=1 -timeout 14m)

# The kit is not part of this repository. It needs Debian's python3-httpx, python3-pytest,
# python3-pytest-asyncio, python3-grpcio and python3-jsonschema; PYTHON may name another Python.
TCK ?=
.PHONY: conformance-a2a
conformance-a2a: ## Run A2A's Technology Compatibility Kit, a checkout of a2a-tck (branch 1.0-dev) in the directory TCK, and write docs/a2a-conformance.md
	@$(SAY) "a2a-tck in $(TCK)"
	@[ -n "$(TCK)" ] || { echo "name the directory: make conformance-a2a TCK=DIR" >&2; exit 1; }
	$(GO) test $(JUDGES) -run '^TestTCK$$' -count=1 -v -timeout 20m -tck "$(abspath $(TCK))" -update

# The checkers are short-lived: collecting garbage less often saves them a third of
# their processor time.
.PHONY: lint
lint: export GOGC := 400
lint: export GOMEMLIMIT := 3GiB
lint: ## Formatting, go vet, staticcheck, more rules (tools/lint), exhaustive switches over sum types, the profile of the server, known vulnerabilities
	@$(SAY) "formatting"
	@unformatted=$$($(TOOL) gofumpt -l .); if [ -n "$$unformatted" ]; then printf 'gofumpt would change:\n%s\n' "$$unformatted" >&2; exit 1; fi
	@$(SAY) "subjects of commits"
	@long=$$(git log --since=2026-11-30T11:44:00Z --format=%s 2>/dev/null | awk 'length > 72'); \
	if [ -n "$$long" ]; then printf 'longer than 72 characters:\n%s\n' "$$long" >&2; exit 1; fi
	@$(SAY) "go vet and staticcheck"
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	cd bench && $(GO) vet ./... && $(TOOL) staticcheck ./...
	cd cmd/parley/judges/a2a/testdata/client && $(GO) vet . && $(TOOL) staticcheck .
	@$(SAY) "rules that vet and staticcheck lack"
	$(GO) build -C tools -buildvcs=false -o ../bin/lint ./lint
	$(GO) vet -vettool=$(CURDIR)/bin/lint ./...
	cd bench && $(GO) vet -vettool=$(CURDIR)/bin/lint ./...
	@$(SAY) "switches over sum types name every case; each rule reports a planted fault"
	$(GO) test -C tools -count=1 ./...
	@$(SAY) "the profile of the server can be read"
	$(GO) tool pprof -top -nodecount 1 cmd/parley/default.pgo | grep 'Total samples'
	@$(SAY) "known vulnerabilities"
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; code=0; \
	timeout 300 $(TOOL) govulncheck ./... >"$$said" 2>&1 || code=$$?; \
	if [ $$code = 0 ]; then tail -n 1 "$$said"; \
	elif [ $$code = 124 ] || { [ $$code != 3 ] && grep -q 'fetching vulnerabilities' "$$said"; }; then \
		printf '\n!! NOT CHECKED: known vulnerabilities: their database cannot be reached from here\n\n' >&2; \
	else cat "$$said" >&2; exit 1; fi

.PHONY: fmt
fmt: ## Format every Go file
	$(TOOL) gofumpt -w .

.PHONY: fuzz
fuzz: ## Every fuzz test for FUZZTIME (5s)
	@for package in $$($(GO) list ./...); do \
		for name in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			$(SAY) "$$package $$name"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

# A failing seed is replayed with its trace by
#   go test ./cluster/simtest -run Sim -seed 42
SEEDS ?= 2000
.PHONY: sim
sim: ## Simulate a cluster that fails, with SEEDS (2000) seeds
	@$(SAY) "a simulated cluster, $(SEEDS) seeds"
	$(GO) test -count=1 -v -timeout 60m ./cluster/simtest -run '^TestSim$$' -seeds $(SEEDS)
	@$(SAY) "the suite of journals over three replicas, whose leader moves and dies"
	$(GO) test -count=1 -timeout 20m ./cluster -run '^TestConformance' -three

.PHONY: soak-cluster
soak-cluster: server ## Kill, halt, cut off, stall and damage the nodes of clusters, again and again
	@$(SAY) "200 kills; frozen disks, damaged files, slow networks"
	$(GO) test -count=1 -v -timeout 90m $(BLACKBOX)/nodes -run '^(TestNodesKilled|TestLeaderDiskStalls|TestFollowerRots|TestLeaderRots|TestSlowNetwork)$$' -nodes.kills 200 -nodes.stalls 20 -nodes.rot 6 -nodes.delays 5
	@$(SAY) "older copies of directories; nodes that are added and removed on slow disks"
	$(GO) test -count=5 -v -timeout 90m $(BLACKBOX)/nodes -run '^(TestOlderCopies|TestOlderCopyOfAClusterOfOne|TestDivergedNode|TestAllReplaced|TestRemovalRefusesNobody)$$' -nodes.orders 30
	$(GO) test -count=1 -v -timeout 30m ./cluster -run '^TestMembersChangeOnSlowDisks$$' -members.rounds 300
	@$(SAY) "200 races for the uses of registration tokens"
	$(GO) test -count=1 -v -timeout 30m $(BLACKBOX)/nodes -run '^TestRegistrationTokensAdmitNoMore$$' -nodes.admissions 200
	@$(SAY) "100,000 agents with cards and webhooks"
	$(GO) test -count=1 -v -timeout 60m $(BLACKBOX)/nodes -run '^TestLeaderOfManyKilled$$' -nodes.many 100000
	@$(SAY) "a million malformed frames of each type, of members"
	$(GO) test -count=1 -v -timeout 120m ./cluster -run '^TestMalformedFrames$$' -frames.inputs 1000000
	@$(SAY) "scripts on one server and on three nodes"
	$(GO) test -count=1 -v -timeout 60m $(BLACKBOX)/nodes -run '^TestNodesAnswerAlike$$' -nodes.scripts 20
	@$(SAY) "the stories of one server at a follower"
	$(GO) test -count=1 -v -timeout 60m -p 1 $(BLACKBOX)/... -at.follower
	@$(SAY) "upgrades from a former program"
	$(GO) test -count=5 -v -timeout 60m $(BLACKBOX)/nodes -run '^TestRollingUpgrade$$' -nodes.upgrade
	@$(SAY) "1 GiB to a blank node"
	$(GO) test -count=1 -v -timeout 30m $(BLACKBOX)/nodes -run '^TestBlankNodeUnderLoad$$' -nodes.content 1024
	@$(SAY) "partitions"
	$(GO) test -count=1 -v -timeout 60m $(BLACKBOX)/nodes -run '^(TestPartitions|TestNoMajority)$$' -nodes.partitions 10
	@$(SAY) "stops, halts, full disks, histories, groups and webhooks, again and again"
	$(GO) test -count=5 -v -timeout 90m $(BLACKBOX)/nodes -run '^(TestRollingRestart|TestLeaderHalted|TestLeaderDiskFull|TestFollowerDiskFull|TestStopOnFullDisk|TestKeysWaitForRoom|TestNodesGroupsUnderKills|TestNodesKillsDuringDelivery)$$'
	@$(SAY) "wall clocks that jump or are wrong, in a binary that takes minutes to build"
	$(GO) test -count=1 -v -timeout 60m $(BLACKBOX)/nodes -run '^(TestClockJumps|TestWrongClock)$$' -nodes.clocks 10

.PHONY: soak-revocation
soak-revocation: server ## Revoke 200 credentials of a cluster while clients use them
	$(GO) test -count=1 -v -timeout 30m $(BLACKBOX)/nodes -run '^(TestRevocationRaces|TestRevocationControl)$$' -nodes.revocations 200

.PHONY: soak-bounds
soak-bounds: server ## Take all connections, and leave answers unread, as docs/limits.md says
	$(GO) test -count=1 -v -timeout 20m $(BLACKBOX)/limits -run '^(TestUnreadAnswersAreBoundedInTheKernel|TestSilentConnectionsOnAllListeners)$$' -bounds.connections 1000 -bounds.for 60s
	$(GO) test -count=1 -v -timeout 20m $(BLACKBOX)/limits -run '^TestTenantEndsAtItsQuotas$$' -tenant.for 10m -tenant.stored 1000000000

# The attackers of docs/measurements/faults.md and docs/cluster.md for longer, about 50 minutes.
SOAK ?= 20m
.PHONY: soak
soak: server ## Kill, crash, flip and confuse for SOAK (20m) and more
	@$(SAY) "kills under load, a larger disk"
	$(GO) test -count=1 -v -timeout 90m $(BLACKBOX)/durability -run '^(TestSoak|TestFullDisk)$$' -soak $(SOAK)
	@$(SAY) "streams"
	$(GO) test -count=1 -v -timeout 20m $(BLACKBOX)/limits -run '^TestStreamsUnderLoad$$' -soak.streams 9000
	@$(SAY) "more power failures, disk faults and flipped bytes; all vectors of XAES-256-GCM"
	$(GO) test -count=1 -timeout 30m ./persistence ./persistence/seal -exhaustive
	$(GO) test -count=1 -timeout 30m ./persistence/keyring -exhaustive -rapid.checks 1000
	@$(SAY) "scripts in twelve ways, more power failures and sagas, a million commands for each aggregate"
	$(GO) test -count=1 -timeout 30m ./actors -run '^(TestVariantsAnswerAlike|TestSagasSurviveACrashAfterAnyEntry|TestBroadcastSurvivesACrashAfterAnyEntry|TestCrash|TestPassivationLosesNothing)$$' -metamorphic.scripts 20 -exhaustive
	$(GO) test -count=1 -timeout 20m ./actors/org ./actors/agent ./actors/conversation ./actors/registration ./actors/issuer ./actors/group ./actors/webhook -run '^TestOracle$$' -oracle.commands 1000000
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory fuzz FUZZTIME=10s

.PHONY: cover
cover: ## Test coverage, by package and in all
	$(GO) test -short -coverpkg=./... -coverprofile=cover.out $(INSIDE)
	@$(GO) tool cover -func=cover.out | tail -n 1

# Generated code is committed, so that a build needs no generator. buf has a module
# of its own, because it needs other versions of protobuf than the plugins. Neither
# it nor the plugins use the network: buf.gen.*yaml name local plugins only.
BUF := $(GO) tool -modfile=$(CURDIR)/tools/buf/go.mod buf
# A test makes the OpenAPI document, because it needs the unexported plans of routes.
OPENAPI = $(GO) test ./http/rest -count=1 -run '^TestOpenAPIIsCurrent$$'
PLUGINS := bin/protoc-gen-go bin/protoc-gen-go-vtproto

$(PLUGINS) &: tools/go.mod
	mkdir -p bin
	$(GO) build -modfile=tools/go.mod -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto
	touch $(PLUGINS)

.PHONY: generate
generate: $(PLUGINS) ## Write the Go code of the .proto files, and the OpenAPI document
	$(BUF) generate
	$(BUF) generate --template buf.gen.messages.yaml
	$(OPENAPI) -update

.PHONY: check-generated
check-generated: $(PLUGINS) ## Check that the .proto files pass buf lint and that what is generated is current
	@$(SAY) "generated code (building buf takes 1.5 minutes the first time)"
	$(BUF) lint
	$(OPENAPI)
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BUF) generate --output "$$fresh"; \
	$(BUF) generate --template buf.gen.messages.yaml --output "$$fresh"; \
	diff <(find actors -name '*.pb.go' | sort) <(cd "$$fresh" && find actors -name '*.pb.go' | sort) || \
		{ echo "the list of generated files differs (< committed, > generated)" >&2; exit 1; }; \
	for file in $$(cd "$$fresh" && find actors -name '*.pb.go'); do \
		diff -u "$$file" "$$fresh/$$file" || { echo "run: make generate" >&2; exit 1; }; \
	done; \
	echo "generated code is current"

# What users compare. The whole takes half an hour and wants a quiet machine.
.PHONY: bench
bench: build bench-peers ## Measure the published goals with the peers beside us, and verify what was acknowledged
	@$(SAY) "bench"
	./parley bench --goals --verify --beside "$$(ls -d bin/peers/* | paste -sd,)"

# The published growth tables go to 1,000,000 agents and 10,000,000 messages. That takes
# hours and 30 GiB of disk; --dir names the disk:
#   ./parley bench grow-agents --grow 1000000 --rest 150s --dir DIR
#   ./parley bench grow-messages --grow 10000000 --verify --dir DIR
.PHONY: bench-growth
bench-growth: build ## Measure scaling curves up to 100,000 agents and 1,000,000 messages
	@$(SAY) "bench growth"
	./parley bench grow-agents --grow 100000
	./parley bench grow-messages --grow 1000000 --verify

# Each peer is a module of its own with pinned versions: nothing of it reaches
# the product's go.mod. A peer that cannot be built or run here is left out aloud.
PEERS := floor postgres jetstream
POSTGRES := /usr/lib/postgresql/*/bin/postgres
# Debian makes and starts a database of its own when PostgreSQL is installed. It
# would run beside every measurement, so it is told not to while we install.
NO_CLUSTER := /etc/postgresql-common/createcluster.d/parley-bench.conf

.PHONY: bench-peers
bench-peers: bench-postgres ## Build the systems that the bench compares with
	@$(SAY) "peers of the bench"
	@mkdir -p bin/peers
	@for peer in $(PEERS); do \
		echo "bin/peers/$$peer"; \
		(cd bench/peers/$$peer && $(GO) build -trimpath -o ../../../bin/peers/$$peer .) || \
			{ why="$$peer could not be built: it is left out of the comparison"; $(LEFT_OUT); }; \
	done

.PHONY: bench-postgres
bench-postgres:
	@if ! compgen -G '$(POSTGRES)' >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(SAY) "installing PostgreSQL"; \
		mkdir -p $(dir $(NO_CLUSTER)); echo 'create_main_cluster = false' >$(NO_CLUSTER); \
		trap 'rm -f $(NO_CLUSTER)' EXIT; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null || true; \
	fi; \
	compgen -G '$(POSTGRES)' >/dev/null || \
		{ why="PostgreSQL is not installed (apt-get install postgresql): the comparison with it is left out"; $(LEFT_OUT); }

# One core count, so that names agree between machines, and a fixed number of
# iterations, so that what grows with them does too.
MICRO := $(GO) test -run '^$$' -bench '^Benchmark(Request|Push|Apply)$$|^BenchmarkAppend$$/^hot$$' \
	-benchtime 1000x -count 6 -cpu 2 -benchmem ./http ./persistence
BASELINE := docs/bench-micro.txt

bin/bench-micro.txt: FORCE
	@$(SAY) "micro benchmarks (about a minute)"
	@mkdir -p bin
	$(MICRO) >$@ || { cat $@ >&2; exit 1; }

.PHONY: FORCE
FORCE:

.PHONY: bench-micro
bench-micro: bin/bench-micro.txt ## Compare the cost of single operations with the stored baseline
	$(TOOL) benchstat -ignore cpu before=$(BASELINE) now=$<
	@echo "B/op, allocs/op and writes/op can be compared between machines, sec/op cannot."

.PHONY: bench-micro-baseline
bench-micro-baseline: bin/bench-micro.txt ## Make today's cost of single operations the baseline
	grep -E '^(goos|goarch|pkg|cpu|Benchmark)' $< >$(BASELINE)

.PHONY: profile
profile: build ## Renew cmd/parley/default.pgo, the profile by which the compiler optimizes ./parley
	@$(SAY) "profile"
	GO=$(GO) tools/profile.sh

.PHONY: clean
clean: ## Remove what was built; data directories stay
	rm -rf bin parley parley-bench cover.out cmd/parley/judges/node_modules cmd/parley/judges/artifacts examples/*/node_modules examples/*/dist
