package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	parleyhttp "parley/http"
	"parley/http/access"

	"parley/cmd/parley/program"
)

// names are the names of the product by kind, as testdata/contract.txt spells kinds. The
// kinds with the suffix " shown" hold what /openapi.json shows alone; the others hold also
// what only the source does, such as aliases and the members of A2A.
type names map[string]map[string]bool

func (n names) add(kind string, all ...string) {
	if n[kind] == nil {
		n[kind] = map[string]bool{}
	}
	for _, name := range all {
		n[kind][name] = true
	}
}

// productNames reads the names of the product: its routes, its command line, its
// /openapi.json and its source.
func productNames(t *testing.T) names {
	t.Helper()
	found := names{}
	for _, e := range parleyhttp.Endpoints() {
		path := pathParameter.ReplaceAllString(e.Path, "{}")
		found.add("route", e.Method+" "+path)
		found.add("word", strings.Split(path, "/")...)
	}
	found.add("quota", access.QuotaNames()...)
	found.add("quota", access.QuotaJoinRequests)
	found.add("rate", parleyhttp.RateNames()...)
	found.addCommands(t)
	found.addDocument(t)
	for _, dir := range []string{"../../http", "../../client/api", "../../client/parley", "../../actors", "."} {
		found.addSource(t, dir)
	}
	for name := range found["member"] {
		found.add("word", name)
	}
	return found
}

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// addCommands adds the commands with their flags and environment variables.
func (n names) addCommands(t *testing.T) {
	t.Helper()
	parser, err := newParser(&commands{}, &program.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var walk func(node *kong.Node, path string, inherited []*kong.Flag)
	walk = func(node *kong.Node, path string, inherited []*kong.Flag) {
		flags := append(inherited[:len(inherited):len(inherited)], node.Flags...)
		if node.Leaf() {
			n.add("command", path)
		}
		for _, f := range flags {
			n.add("flag", "--"+f.Name)
			if node.Leaf() {
				n.add("flag", path+" --"+f.Name)
			}
			n.add("variable", f.Envs...)
			for _, value := range f.EnumSlice() {
				n.add("word", value)
			}
		}
		for _, child := range node.Children {
			if !child.Hidden {
				walk(child, path+" "+child.Name, flags)
			}
		}
	}
	walk(parser.Model.Node, "parley", nil) // program.Name is that of the test
}

// addDocument adds what /openapi.json shows: members, parameters, headers, codes and the
// values of enumerations.
func (n names) addDocument(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../http/docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	n.addSchema("", document)
}

// addSchema adds what a part of the document shows. name is the member it describes.
func (n names) addSchema(name string, part any) {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			n.addSchema(name, one)
		}
	case map[string]any:
		if properties, ok := part["properties"].(map[string]any); ok {
			for member, of := range properties {
				n.add("member", member)
				n.add("member shown", member)
				n.addSchema(member, of)
			}
		}
		if place, ok := part["in"].(string); ok {
			kind := "member"
			if place == "header" {
				kind = "header"
			}
			parameter, _ := part["name"].(string)
			n.add(kind, parameter)
			n.add(kind+" shown", parameter)
			name = parameter
		}
		if headers, ok := part["headers"].(map[string]any); ok {
			for header := range headers {
				n.add("header", header)
				n.add("header shown", header)
			}
		}
		if values, ok := part["enum"].([]any); ok {
			n.addValues(name, values)
		}
		for key, one := range part {
			if key != "properties" && key != "enum" {
				n.addSchema(name, one)
			}
		}
	}
}

func (n names) addValues(name string, values []any) {
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			continue
		}
		n.add("status", text)
		n.add("word", text)
		n.add("word shown", text)
		if name == "code" {
			n.add("code", text)
		}
	}
}

var (
	wholeWord    = regexp.MustCompile(`^-?[A-Za-z0-9][A-Za-z0-9_./-]*$`)
	headerInText = regexp.MustCompile(`([A-Z][A-Za-z0-9-]+): `)
	memberInText = regexp.MustCompile(`"([A-Za-z][A-Za-z0-9_]*)\\?"?`)
	listedWord   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_.-]*`)
)

// addSource adds the names in the product's source below a folder: string literals that are
// one word, members within literals of JSON, names in struct tags, error codes, and the
// constants that name events and quotas.
func (n names) addSource(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "blackbox" || d.Name() == "judges" || d.Name() == "history" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			n.addNode(node)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (n names) addNode(node ast.Node) {
	switch node := node.(type) {
	case *ast.ImportSpec:
		return
	case *ast.BasicLit:
		if node.Kind == token.STRING {
			n.addLiteral(node.Value)
		}
	case *ast.SelectorExpr: // fasthttp.HeaderRetryAfter
		if name, ok := strings.CutPrefix(node.Sel.Name, "Header"); ok {
			n.add("header constant", strings.ToLower(name))
		}
	case *ast.ValueSpec:
		for i, name := range node.Names {
			if i < len(node.Values) {
				n.addConstant(name.Name, node.Values[i])
			}
		}
	case *ast.CallExpr:
		n.addCall(node)
	}
}

func (n names) addLiteral(value string) {
	text, err := strconv.Unquote(value)
	if err != nil {
		return
	}
	if wholeWord.MatchString(text) {
		n.add("member", text)
		n.add("header", text)
		n.add("literal", text)
	}
	if strings.HasPrefix(value, "`") && strings.Contains(text, `:"`) { // a struct tag
		n.add("member", listedWord.FindAllString(text, -1)...)
	}
	for _, m := range headerInText.FindAllStringSubmatch(text, -1) {
		n.add("header", m[1])
	}
	for _, m := range memberInText.FindAllStringSubmatch(text, -1) {
		n.add("member", m[1])
	}
}

// addConstant adds the constants that name events and quotas.
func (n names) addConstant(name string, value ast.Expr) {
	text, ok := literal(value)
	if !ok || strings.HasPrefix(text, "{") {
		return
	}
	switch {
	case strings.HasPrefix(name, "Hook") || strings.HasPrefix(name, "Event") && wholeWord.MatchString(text):
		n.add("event", text)
	case strings.HasPrefix(name, "Quota"):
		n.add("quota", text)
	}
}

// addCall adds the code of a refusal, the quota of one, and a route of the admin listener.
func (n names) addCall(call *ast.CallExpr) {
	called := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		called = f.Sel.Name
	case *ast.Ident:
		called = f.Name
	}
	if len(call.Args) < 2 {
		return
	}
	first, ok := literal(call.Args[0])
	second, also := literal(call.Args[1])
	switch {
	case called == "Refuse" || called == "Protocol":
		if also && second != "" && !strings.Contains(second, "{") {
			n.add("code", second)
		}
	case called == "OverQuota" && ok && !strings.Contains(first, "{"):
		n.add("quota", first)
	case ok && strings.HasPrefix(called, "Handle") && strings.Contains(first, " /"):
		n.add("route", pathParameter.ReplaceAllString(first, "{}"))
	}
}
