package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rawWriters are the files that write bytes to the standard streams as they are, and why.
var rawWriters = map[string]string{
	"main.go":            "opens the streams, and gives them to kong, which prints help",
	"bench.go":           "hands them to parley-bench",
	"completion.go":      "prints a script",
	"cli/register.go":    "asks whether standard error is a terminal",
	"demo/demo.go":       "paints; the narrator cleans what others wrote",
	"operator/verify.go": "overwrites its own line of progress",
	"program/streams.go": "is the printer",
	"program/exit.go":    "is the printer",
	"server/serve.go":    "is the server, whose log quotes what it contains",
}

// TestOnlyOnePrinter: no command reaches a terminal but through program.Streams.
func TestOnlyOnePrinter(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"blackbox", "judges", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if !rawOutput(n) {
				return true
			}
			if used[filepath.ToSlash(path)] = true; rawWriters[filepath.ToSlash(path)] == "" {
				t.Errorf("%s writes to a terminal past program.Streams: use Say, Note, Value, Table or Log", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range rawWriters {
		if !used[path] {
			t.Errorf("%s is listed but writes nothing itself", path)
		}
	}
}

// rawOutput reports whether a node names a standard stream, or prints to one.
func rawOutput(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		return ok && (name.Name == "print" || name.Name == "println")
	case *ast.SelectorExpr:
		from, _ := n.X.(*ast.Ident)
		switch name := n.Sel.Name; {
		case name == "RawOut" || name == "RawErr":
			return true
		case from != nil && from.Name == "os":
			return name == "Stdout" || name == "Stderr"
		case from != nil && from.Name == "fmt":
			return strings.HasPrefix(name, "Print")
		}
	}
	return false
}
