package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateErrors = flag.Bool("update.errors", false, "write testdata/errors.golden anew")

// TestErrorTexts keeps every error text of the command line and of the client in
// one file, so that they can be reviewed as a list: in the same words, with the
// same kind of advice.
func TestErrorTexts(t *testing.T) {
	golden := filepath.Join("testdata", "errors.golden")
	var list strings.Builder
	for _, place := range []struct{ name, dir string }{{"command line", "."}, {"client", "../../http/client"}} {
		fmt.Fprintf(&list, "# %s\n", place.name)
		for _, line := range errorTexts(t, place.dir) {
			list.WriteString(line + "\n")
		}
	}
	if *updateErrors {
		if err := os.WriteFile(golden, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(list.String(), "\n")); diff != "" {
		t.Errorf("error texts changed; read the list, then: go test ./cmd/parley -run TestErrorTexts -update.errors\n%s", diff)
	}
}

// errorTexts are the texts of all errors that a folder's files make, each with
// its file.
func errorTexts(t *testing.T, dir string) (lines []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && makesError(call) {
				if text, ok := literal(call.Args[0]); ok {
					lines = append(lines, fmt.Sprintf("%-20s %s", filepath.Base(file), strings.ReplaceAll(text, "\n", `\n`)))
				}
			}
			return true
		})
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// makesError reports whether a call is errors.New or fmt.Errorf.
func makesError(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	of, ok := f.X.(*ast.Ident)
	return ok && (of.Name == "errors" && f.Sel.Name == "New" || of.Name == "fmt" && f.Sel.Name == "Errorf")
}

// literal is the text of an expression of texts and sums of texts; a name in it
// is shown as one.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		right, also := literal(e.Y)
		return left + right, e.Op == token.ADD && ok && also
	case *ast.Ident:
		return "{" + e.Name + "}", true
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "typed" && len(e.Args) == 1 {
			command, ok := literal(e.Args[0])
			return "parley " + command, ok
		}
	}
	return "", false
}
