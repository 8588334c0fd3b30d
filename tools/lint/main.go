// Lint is a vet tool with the analyzers that go vet and staticcheck lack. It is run by
// go vet -vettool, so that results are cached per package like those of go vet.
//
// The rules of staticcheck are in staticcheck.conf, sum types in package sums.
package main

import (
	"strings"

	"github.com/charithe/durationcheck"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/nishanths/predeclared/passes/predeclared"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"github.com/sanposhiho/wastedassign/v2"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

// rules are the analyzers that run, each with the reason.
//
// Left out, with the reason:
//   - nilerr: the journal and the verifiers report an undecodable row elsewhere and
//     return nil on purpose; every finding was such a place.
//   - unparam: staticcheck reports unused code; a parameter that always has the same
//     value is usual in tests, where all other findings were.
//   - errcheck: the few errors that product code ignores are of Close and Remove on a
//     path that already returns an error.
//   - exhaustive: switches over protobuf enums have a default on purpose, because stored
//     data may hold values of a newer release. Sum types are checked by package sums.
//   - modernize, perfsprint, intrange: style, without effect on correctness.
var rules = []*analysis.Analyzer{
	// err == X and err.(T) fail once somebody wraps the error.
	errorlint.NewAnalyzer(),
	// A response body that is not closed leaks its connection.
	bodyclose.Analyzer,
	// A value that is never read is a forgotten check, usually of an error.
	ineffassign.Analyzer,
	// The same on paths through branches and loops.
	wastedassign.Analyzer,
	// time.Second * d, where d is a duration already, is 10^9 times too long.
	durationcheck.Analyzer,
	// A variable named len, new or any breaks later uses of the builtin.
	predeclared.Analyzer,
	// A nil dereference, or a nil check that can only have one result.
	nilness.Analyzer,
	// A write to a field of a copy has no effect.
	unusedwrite.Analyzer,
}

// productOnly drops findings in tests, which do on purpose what some rules reject:
// they compare errors by identity and read responses from connections that they close.
func productOnly(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			if !strings.HasSuffix(pass.Fset.Position(d.Pos).Filename, "_test.go") {
				report(d)
			}
		}
		return run(pass)
	}
	return a
}

func main() {
	for _, rule := range rules {
		productOnly(rule)
	}
	unitchecker.Main(rules...)
}
