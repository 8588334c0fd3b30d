package parley_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The limits of a package, a type and an interface: more asks for a part with a reason of its own.
const (
	filesMax            = 20
	methodsMax          = 25
	interfaceMethodsMax = 10
)

// oversizedMax is the length of oversized. It only goes down, to ten at most.
const oversizedMax = 10

// oversized are the exceptions to the limits, with their sizes, which only go down.
var oversized = map[string]struct {
	size int
	why  string
}{
	"folder actors":                 {32, "one package calls all actors: calls, turns and rows of a group, an agent and a message need each other"},
	"type actors.Groups":            {48, "calls of the HTTP layer and turns of the actor, which share one order of members and messages"},
	"type actors/agent.State":       {31, "one aggregate: what its rules ask of its state"},
	"type actors/delivery.Webhooks": {45, "the calls and the turns of one actor"},
	"type actors/group.State":       {53, "one aggregate: what its rules ask of its state"},
	"type actors/group.decision":    {44, "one aggregate: a decision for each command"},
	"type actors/webhook.State":     {35, "one aggregate: what its rules ask of its state"},
	"type cluster/consensus.Core":   {41, "one loop: each step of raft reads and writes the same state"},
	"type http/a2a.Bridge":          {59, "one protocol: each method of A2A reads tasks, which are made of the same conversations"},
	"type http/rest.Call":           {43, "what a handler reads and writes of one request"},
}

// TestSizes holds folders, types and interfaces to the limits, but for the exceptions.
func TestSizes(t *testing.T) {
	if len(oversized) != oversizedMax {
		t.Errorf("%d exceptions, want %d: there must be no more, and with fewer oversizedMax goes down", len(oversized), oversizedMax)
	}
	over := surveySizes(t, os.DirFS("."))
	for what, size := range over {
		if allowed, excepted := oversized[what]; !excepted || size > allowed.size {
			t.Errorf("%s: %d, and %d are allowed", what, size, allowed.size)
		}
	}
	for what, allowed := range oversized {
		if size := over[what]; size < allowed.size {
			t.Errorf("%s: %d, and %d are allowed: lower or remove the exception", what, size, allowed.size)
		}
	}
}

func TestSizesControl(t *testing.T) {
	methods, wide := "package org\n\ntype t struct{}\n", "package org\n\ntype i interface {\n"
	for n := range methodsMax + 1 {
		methods += fmt.Sprintf("\nfunc (*t) m%d() {}\n", n)
	}
	for n := range interfaceMethodsMax + 1 {
		wide += fmt.Sprintf("\tm%d()\n", n)
	}
	root := fstest.MapFS{"actors/org/t.go": {Data: []byte(methods)}, "actors/org/i.go": {Data: []byte(wide + "}\n")}}
	for n := range filesMax + 1 {
		root[fmt.Sprintf("actors/agent/f%d.go", n)] = &fstest.MapFile{Data: []byte("package agent\n")}
	}
	var found []string
	for what := range surveySizes(t, root) {
		found = append(found, what)
	}
	slices.Sort(found)
	if want := []string{"folder actors/agent", "interface actors/org.i", "type actors/org.t"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// surveySizes returns what exceeds the limits: files of a folder, methods of a type or an interface.
func surveySizes(t *testing.T, root fs.FS) map[string]int {
	t.Helper()
	sizes, limits := map[string]int{}, map[string]int{"folder": filesMax, "type": methodsMax, "interface": interfaceMethodsMax}
	for _, s := range sources(t, root) {
		if s.test || s.generated {
			continue
		}
		folder := path.Dir(s.file)
		sizes["folder "+folder]++
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					sizes["type "+folder+"."+receiverOf(n.Recv.List[0].Type)]++
				}
				return false
			case *ast.TypeSpec:
				if i, is := n.Type.(*ast.InterfaceType); is {
					sizes["interface "+folder+"."+n.Name.Name] = i.Methods.NumFields()
				}
			}
			return true
		})
	}
	for what, size := range sizes {
		if kind, _, _ := strings.Cut(what, " "); size <= limits[kind] {
			delete(sizes, what)
		}
	}
	return sizes
}

// receiverOf is the name of the type of a method.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
