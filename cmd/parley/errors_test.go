package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	for _, place := range []struct {
		name, dir string
		without   []string // folders below it that hold tests, or what others return too
	}{
		{"command line", ".", []string{"blackbox", "history", "judges", "testdata"}},
		{"client", "../../client", []string{"api", "parley", "testdata"}},
	} {
		fmt.Fprintf(&list, "# %s\n", place.name)
		for _, line := range errorTexts(t, place.dir, place.without) {
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

// errorTexts returns the texts of all errors that the product files below dir
// make, each with its path below dir.
func errorTexts(t *testing.T, dir string, without []string) (lines []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(without, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(dir, path)
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && makesError(call) {
				if text, ok := literal(call.Args[0]); ok {
					lines = append(lines, fmt.Sprintf("%-24s %s", file, strings.ReplaceAll(text, "\n", `\n`)))
				}
			}
			return true
		})
		return err
	})
	if err != nil || len(lines) == 0 {
		t.Fatalf("%s: %d error texts, %v", dir, len(lines), err)
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

// literal returns the text of an expression made of literals and sums of them;
// a name in it is shown in braces.
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
	case *ast.SelectorExpr:
		return literal(e.Sel)
	case *ast.CallExpr:
		if called, ok := literal(e.Fun); ok && called == "{Typed}" && len(e.Args) == 1 {
			command, ok := literal(e.Args[0])
			return "parley " + command, ok
		}
	}
	return "", false
}
