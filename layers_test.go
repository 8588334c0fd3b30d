package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// place is where a package stands in the house: what it may import of the
// other packages, what its tests may import besides, and why no more.
type place struct {
	may   []string
	tests []string
	// pure packages hold rules: no I/O, clock, goroutine, lock, log, context.
	pure bool
	why  string
}

// lattice is the drawing of docs/architecture.md as data. It is a statement of
// policy: a package that wants an import that is not here is in the wrong
// place, and this map is not the thing to change. A path that ends in /... stands
// for every package below it.
var lattice = map[string]place{
	// Ground.
	"parley": {tests: []string{"parley/http"}, pure: false, why: "the ground everything stands on has nothing below it"},

	// What actors and storage agree on.
	"parley/journal/report": {may: ground, why: "the result of a verification knows neither who verifies nor what"},
	"parley/journal":        {may: ground, why: "the contract between actors and storage knows neither of them"},

	// Rules.
	"parley/actors/org":          {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/agent":        {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/conversation": {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/registration": {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/issuer":       {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/group":        {may: ground, tests: stories, pure: true, why: strangers},
	"parley/actors/webhook":      {may: ground, tests: stories, pure: true, why: strangers},

	"parley/actors/record": {may: slices.Concat(ground, agreed, aggregates), why: "what is stored beside events is encoded in one place"},

	"parley/actors/rules": {may: slices.Concat(ground, agreed, aggregates), why: "what runs aggregates sees each through one type"},

	// Rooms. Roommates never import each other: actors declares the interfaces
	// it needs and the others satisfy them.
	"parley/actors/verify": {may: slices.Concat(ground, agreed, rules), why: "what examines stored data must not share the code that wrote it, but for rules and encodings"},
	"parley/actors/host":   {may: slices.Concat(ground, agreed, rules), why: "one loop runs the actors of every kind; what they decide is the kinds' business"},
	"parley/actors": {
		may:   slices.Concat(ground, agreed, rules, []string{"parley/actors/host"}),
		tests: []string{"parley/actors/actorstest", "parley/actors/verify", "parley/persistence", "parley/persistence/crashtest", "parley/persistence/journaltest", "parley/persistence/verify"},
		why:   "the body runs the rules; it sees journals through their contract",
	},
	"parley/actors/actorstest": {may: ground, why: "it tells the stories of any aggregate and so knows none"},
	"parley/persistence": {
		may:   slices.Concat(ground, agreed, []string{"parley/persistence/apply", "parley/persistence/disk", "parley/persistence/layout"}),
		tests: []string{"parley/persistence/backup", "parley/persistence/journaltest", "parley/persistence/crashtest", "parley/persistence/verify"},
		why:   "a journal keeps bytes; what they mean is the actors' business",
	},
	"parley/persistence/disk": {may: ground, why: "the disk knows files and commits, never what the rows in them mean"},
	"parley/persistence/apply": {
		may:  slices.Concat(ground, agreed, []string{"parley/persistence/layout"}),
		pure: true,
		why:  "the outcome of an entry depends on the state of its journal alone, so that one node can decide for others",
	},
	"parley/persistence/layout": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence/disk"}),
		why: "how rows lie on the disk is one decision; who writes, reads or verifies them shares it",
	},
	"parley/persistence/verify": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence/disk", "parley/persistence/layout"}),
		why: "rows are verified as they lie on the disk, whatever wrote them; the store's own tests use it as their oracle",
	},
	"parley/persistence/backup": {
		may: slices.Concat(ground, []string{"parley/persistence/disk", "parley/persistence/layout"}),
		why: "a backup copies the files of a checkpoint; which journals they hold is the store's business",
	},
	"parley/persistence/journaltest": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence"}),
		why: "the suite that every journal must pass knows journals only",
	},
	"parley/persistence/crashtest": {why: "a disk that is taken away knows neither journals nor actors"},

	// Doors.
	"parley/http": {
		may:   slices.Concat(ground, agreed, rules, []string{"parley/actors", "parley/http/api", "parley/http/auth", "parley/http/connlimit", "parley/http/egress", "parley/http/limit", "parley/http/overload"}),
		tests: []string{"parley/actors/actorstest", "parley/persistence", "parley/http/client"},
		why:   "the door asks actors; it never touches a journal",
	},
	"parley/http/api":       {may: ground, why: "wire structs are shared with clients, who must not link the server"},
	"parley/http/auth":      {may: ground, why: "tokens and proofs are judged without knowing who asks for what"},
	"parley/http/limit":     {may: ground, why: "a rate limit counts keys and knows nothing else"},
	"parley/http/egress":    {may: ground, why: "what reaches strangers knows where to and what, never why"},
	"parley/http/connlimit": {may: []string{"parley", "parley/http/limit", "parley/http/overload"}, why: "which connections stay open is decided by who holds them, whatever they ask for"},
	"parley/http/overload":  {may: ground, why: "whether to serve is decided by what waits for a processor, whatever is asked"},
	"parley/http/client":    {may: []string{"parley", "parley/http/api"}, tests: []string{"parley/http/api"}, why: "a user of the client must not link Pebble or the server"},

	// The bench stands beside the house: it sees it as a user of the client does
	// and measures it as one process among others.
	"parley/bench": {
		may: []string{"parley/bench/load", "parley/bench/machine", "parley/bench/report", "parley/bench/result", "parley/bench/scenario", "parley/bench/target"},
		why: "what measures the server must not be linked with it",
	},
	"parley/bench/scenario": {
		may: []string{"parley", "parley/http/api", "parley/http/client", "parley/bench/load", "parley/bench/result", "parley/bench/target", "parley/bench/wire"},
		why: "a scenario knows the interface and no more; who runs it and on which machine is not its business",
	},
	"parley/bench/target":  {may: []string{"parley/http/client"}, why: "a target is a process that is asked whether it is well"},
	"parley/bench/load":    {may: []string{"parley/bench/result"}, why: "a generator knows neither HTTP nor Parley"},
	"parley/bench/machine": {may: []string{"parley/bench/result"}, why: "the machine is looked at, whatever runs on it"},
	"parley/bench/report":  {may: []string{"parley/bench/result"}, why: "a report draws the values it is given and measures nothing"},
	"parley/bench/wire":    {why: "a raw connection must be cheap, and so knows bytes only"},
	"parley/bench/result":  {why: "plain values that outlive whoever measured them"},

	"parley/bench/cmd/parley-bench": {
		may: []string{"parley/bench", "parley/bench/report", "parley/bench/result", "parley/bench/scenario", "parley/bench/target"},
		why: "a command line reads flags and calls the bench",
	},

	// Roof.
	"parley/cmd/parley":          {may: everything, why: "the roof is where all names meet"},
	"parley/cmd/parley/cli":      {may: []string{"parley", "parley/http/api", "parley/http/auth", "parley/http/client", "parley/cmd/parley/program", "parley/cmd/parley/profile"}, why: "client commands use a server as any client does"},
	"parley/cmd/parley/program":  {may: []string{"parley", "parley/http/api", "parley/http/client"}, why: "what all commands share knows no command"},
	"parley/cmd/parley/profile":  {may: []string{"parley", "parley/http/api", "parley/http/client", "parley/cmd/parley/program"}, why: "a profile belongs to a client; it runs on machines that have no server"},
	"parley/cmd/parley/blackbox": {tests: []string{"parley/cmd/parley/history"}, why: "who sees the binary from outside knows nothing of what is inside"},
	"parley/cmd/parley/history":  {why: "what clients were told is judged without knowing who told them"},
	"parley/cmd/parley/judges":   {tests: []string{"parley", "parley/http/api", "parley/http/client"}, why: "the judges see the binary as a user of the client does"},
}

const strangers = "rules know the ground only; another aggregate is an id"

var (
	ground     = []string{"parley"}
	agreed     = []string{"parley/journal", "parley/journal/report"}
	aggregates = []string{"parley/actors/org", "parley/actors/agent", "parley/actors/conversation", "parley/actors/registration", "parley/actors/issuer", "parley/actors/group", "parley/actors/webhook"}
	rules      = slices.Concat(aggregates, []string{"parley/actors/record", "parley/actors/rules"})
	stories    = []string{"parley/actors/actorstest"}
	everything = []string{"parley", "parley/..."}
)

// lock ties a third-party module to the floors that may know it.
type lock struct {
	module string
	floors []string
	why    string
}

// locks lists every module that product code may import. One that is not here
// has no floor yet and is refused.
var locks = []lock{
	{"github.com/asynkron/protoactor-go", []string{"parley/actors/host"}, "mailboxes are the body's; rules and doors must outlive the engine"},
	{"github.com/cockroachdb/pebble/v2", []string{"parley/persistence", "parley/persistence/..."}, "one floor knows how bytes reach the disk"},
	{"github.com/cespare/xxhash/v2", []string{"parley/persistence/disk"}, "checksums are for bytes on the disk, never for what is secret"},
	{"github.com/valyala/fasthttp", []string{"parley/http", "parley/bench/scenario"}, "its buffers are reused after a handler returns; only the door lives with that"},
	{"github.com/fasthttp/router", []string{"parley/http"}, "routes are declared in one table"},
	{"github.com/golang-jwt/jwt/v5", []string{"parley/http/auth"}, "one place decides which tokens are good"},
	{"github.com/go-jose/go-jose/v4", []string{"parley/http", "parley/http/auth"}, "signatures of strangers are judged at the door"},
	{"filippo.io/edwards25519", []string{"parley/http", "parley/http/auth", "parley/http/api"}, "keys are judged where they come in"},
	{"code.dny.dev/ssrf", []string{"parley/http/egress"}, "one place decides which addresses are public"},
	{"golang.org/x/net", []string{"parley/http/egress"}, "one place decides which host a text names"},
	{"github.com/maypok86/otter/v2", []string{"parley/actors", "parley/http", "parley/http/auth", "parley/http/limit"}, "caches belong to those who ask, never to rules or to the journal"},
	{"github.com/go-json-experiment/json", []string{"parley/actors", "parley/http", "parley/http/...", "parley/cmd/parley", "parley/cmd/parley/..."}, "rules and journal do not speak JSON"},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"parley/bench/load"}, "distributions are recorded by workers and leave as plain values"},
	{"google.golang.org/protobuf", []string{"parley/actors", "parley/actors/...", "parley/persistence"}, "events are protobuf; doors speak JSON"},
	{"github.com/planetscale/vtprotobuf", []string{"parley/actors", "parley/actors/...", "parley/persistence"}, "events are protobuf; doors speak JSON"},
	{"github.com/google/uuid", []string{"parley"}, "ids have types; nothing above the ground handles a bare UUID"},
	{"github.com/alecthomas/kong", []string{"parley/cmd/parley", "parley/bench/cmd/parley-bench"}, "flags are read on the roof"},
	{"github.com/knadh/koanf", []string{"parley/cmd/parley"}, "settings are read on the roof"},
	{"github.com/lmittmann/tint", []string{"parley/cmd/parley"}, "how a log looks is decided on the roof"},
	{"github.com/prometheus/client_golang", []string{"parley/cmd/parley"}, "metrics are gathered as numbers below and exposed on the roof"},
	{"go.opentelemetry.io/otel", []string{"parley/cmd/parley"}, "spans are made on the roof of what is told below; nothing below carries any"},
}

// testModules may be imported by tests anywhere and by product code nowhere.
var testModules = []string{
	"pgregory.net/rapid", "github.com/cockroachdb/datadriven", "github.com/google/go-cmp",
	"go.uber.org/goleak", "github.com/rogpeppe/go-internal", "github.com/anishathalye/porcupine",
	"go.opentelemetry.io/proto/otlp",
}

// clientOnlyStd holds packages to the standard library: they may not import
// even the modules that a lock would grant them.
var clientOnlyStd = map[string]string{
	"parley/http/client": "a user of the client must download nothing but this module",
}

// bannedStd are imports that would break the promise of a rules package.
var bannedStd = map[string]string{
	"context": "rules take no context: they never wait", "log": "rules do not log", "log/slog": "rules do not log",
	"os": "rules do no I/O", "net": "rules do no I/O", "net/http": "rules do no I/O", "io": "rules do no I/O",
	"sync": "rules hold no lock", "sync/atomic": "rules hold no lock", "unsafe": "rules are plain Go",
	"math/rand": "randomness is passed in", "math/rand/v2": "randomness is passed in", "crypto/rand": "randomness is passed in",
}

// bannedCalls are functions that only the roof may use, by package, and
// waitingCalls those that rules and ground may not use.
var (
	bannedCalls = map[string][]string{
		"time":     {"Now", "Since", "Until"},
		"os":       {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
		"log/slog": {"Default", "SetDefault", "Debug", "Info", "Warn", "Error"},
	}
	waitingCalls = map[string][]string{
		"time": {"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	}
)

// bannedNames say nothing about what a package holds.
var bannedNames = []string{"utils", "util", "common", "models", "model", "types", "helpers", "helper", "config", "shared", "misc", "lib", "base", "core"}

func TestLayers(t *testing.T) {
	for _, complaint := range surveyLayers(t, os.DirFS(".")) {
		t.Error(complaint)
	}
}

// TestLayersMapIsInhabited keeps the map from describing packages that are gone.
func TestLayersMapIsInhabited(t *testing.T) {
	for path := range lattice {
		folder := strings.TrimPrefix(strings.TrimPrefix(path, "parley"), "/")
		if found, _ := fs.Glob(os.DirFS("."), strings.TrimPrefix(folder+"/*.go", "/")); len(found) == 0 {
			t.Errorf("%s is on the map, but there is no such package", path)
		}
	}
	imported := importedModules(t)
	for _, l := range locks {
		if !imported(l.module) {
			t.Errorf("a lock is on %s, which no product code imports", l.module)
		}
		for _, floor := range l.floors {
			path := strings.TrimSuffix(floor, "/...")
			if _, known := lattice[path]; !known {
				t.Errorf("the lock on %s names %s, which is not on the map", l.module, floor)
			}
		}
	}
}

// importedModules tells of a module whether product code imports a package of it.
func importedModules(t *testing.T) func(module string) bool {
	t.Helper()
	paths := map[string]bool{}
	for name, file := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, i := range file.Imports {
			paths[strings.Trim(i.Path.Value, "\"")] = true
		}
	}
	return func(module string) bool {
		for path := range paths {
			if path == module || strings.HasPrefix(path, module+"/") {
				return true
			}
		}
		return false
	}
}

func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "testdata" || d.Name() == "peers"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		files[path] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLayersControl plants one fault at a time in a tree that is otherwise
// sound and expects exactly that fault to be named.
func TestLayersControl(t *testing.T) {
	sound := map[string]string{
		"id.go":                 "package parley\n\nimport _ \"github.com/google/uuid\"\n",
		"actors/org/org.go":     "package org\n\nimport _ \"parley\"\n",
		"bench/load/run.go":     "package load\n\nimport \"time\"\n\nvar _ = time.Now\n",
		"persistence/open.go":   "package persistence\n\nimport _ \"github.com/cockroachdb/pebble/v2/vfs\"\n",
		"cmd/parley/main.go":    "package main\n\nimport (\n\t\"os\"\n\tparleyhttp \"parley/http\"\n)\n\nvar _, _ = os.Getenv, parleyhttp.X\n",
		"actors/wait.go":        "package actors\n\nimport \"time\"\n\nvar _ = time.NewTimer(1)\n",
		"tools/go.mod":          "module other\n",
		"tools/utils/utils.go":  "package utils\n",
		"testdata/bad/bad.go":   "package utils\n",
		"actors/org/ev.pb.go":   "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage org\n\nimport _ \"sync\"\n",
		"http/client/client.go": "package client\n\nimport _ \"parley/http/api\"\n",
	}
	faults := []struct{ file, source, want string }{
		{"id.go", "package parley\n\nimport _ \"parley/actors\"\n", "must not import parley/actors"},
		{"id.go", "package parley\n\nimport \"time\"\n\nvar _ = time.Now()\n", "time.Now"},
		{"id.go", "package parley\n\nimport clock \"time\"\n\nvar now = clock.Now\n", "time.Now"},
		{"actors/bad.go", "package actors\n\nimport _ \"parley/persistence\"\n", "must not import parley/persistence"},
		{"persistence/bad.go", "package persistence\n\nimport _ \"parley/actors\"\n", "must not import parley/actors"},
		{"actors/org/bad.go", "package org\n\nimport _ \"parley/actors/agent\"\n", "must not import parley/actors/agent"},
		{"actors/org/bad.go", "package org\n\nimport _ \"sync\"\n", "rules hold no lock"},
		{"actors/org/bad.go", "package org\n\nfunc f() { go f() }\n", "starts a goroutine"},
		{"actors/org/bad.go", "package org\n\nimport _ \"pgregory.net/rapid\"\n", "is for tests"},
		{"actors/org/bad.go", "package org\n\nimport \"time\"\n\nvar _ = time.After(1)\n", "time.After"},
		{"http/bad.go", "package http\n\nimport \"time\"\n\nvar _ = time.Since\n", "time.Since"},
		{"http/bad.go", "package http\n\nimport \"log/slog\"\n\nfunc f() { slog.Info(\"x\") }\n", "log/slog.Info"},
		{"actors/bad.go", "package actors\n\nimport \"os\"\n\nvar _ = os.Getenv(\"A\")\n", "os.Getenv"},
		{"actors/bad.go", "package actors\n\nimport _ \"github.com/cockroachdb/pebble/v2\"\n", "one floor knows how bytes reach the disk"},
		{"http/bad.go", "package http\n\nimport _ \"github.com/golang-jwt/jwt/v5\"\n", "which tokens are good"},
		{"http/client/bad.go", "package client\n\nimport _ \"github.com/go-json-experiment/json\"\n", "nothing but this module"},
		{"http/client/bad.go", "package client\n\nimport _ \"parley/http\"\n", "must not import parley/http"},
		{"cmd/parley/bad.go", "package main\n\nimport _ \"parley/http\"\n", "under the name parleyhttp"},
		{"cmd/parley/bad.go", "package main\n\nimport _ \"example.org/novelty\"\n", "has no floor"},
		{"bench/load/bad.go", "package load\n\nimport _ \"parley/http/client\"\n", "knows neither HTTP nor Parley"},
		{"bench/load/bad.go", "package load\n\nimport \"os\"\n\nvar _ = os.Getenv\n", "os.Getenv"},
		{"bench/report/bad.go", "package report\n\nimport \"time\"\n\nvar _ = time.Now\n", "time.Now"},
		{"attic/attic.go", "package attic\n", "is not on the map"},
		{"actors/utils/u.go", "package utils\n", "is not a name"},
		{"http/bad.go", "package http\n\nimport _ \"log\"\n", "log"},
	}
	tree := func(extra ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for name, source := range sound {
			m[name] = &fstest.MapFile{Data: []byte(source)}
		}
		for i := 0; i < len(extra); i += 2 {
			m[extra[i]] = &fstest.MapFile{Data: []byte(extra[i+1])}
		}
		return m
	}
	if complaints := surveyLayers(t, tree()); len(complaints) > 0 {
		t.Fatalf("a sound tree is refused: %q", complaints)
	}
	for _, fault := range faults {
		complaints := surveyLayers(t, tree(fault.file, fault.source))
		named := slices.ContainsFunc(complaints, func(c string) bool {
			return strings.HasPrefix(c, fault.file) && strings.Contains(c, fault.want)
		})
		if !named {
			t.Errorf("planted %q in %s; nothing says %q, only %q", fault.source, fault.file, fault.want, complaints)
		}
	}
}
