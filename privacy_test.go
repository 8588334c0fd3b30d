package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPrivacyNamesEveryKindOfRow: docs/privacy.md names every table and every kind of
// stream of the journal, and no other.
func TestPrivacyNamesEveryKindOfRow(t *testing.T) {
	text, err := os.ReadFile("docs/privacy.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := kindsOfRows(t)
	if len(kinds) < 30 {
		t.Errorf("found only %q", kinds)
	}
	var named []string
	for i, part := range strings.Split(string(text), "`") {
		if i%2 == 1 && (strings.HasSuffix(part, "Table") || strings.HasSuffix(part, "Stream")) {
			named = append(named, part)
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(named, kind) {
			t.Errorf("docs/privacy.md does not say what is in %s", kind)
		}
	}
	for _, name := range named {
		if !slices.Contains(kinds, name) {
			t.Errorf("docs/privacy.md names %s, which does not exist", name)
		}
	}
}

// kindsOfRows returns the names of the constants of journal/stream.go that are tables or
// kinds of streams.
func kindsOfRows(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "journal/stream.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && (kind.Name == "Table" || kind.Name == "StreamKind") {
				names = append(names, spec.Names[0].Name)
			}
		}
		return true
	})
	return names
}
