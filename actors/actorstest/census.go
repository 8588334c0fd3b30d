package actorstest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/client/parley"
)

// census counts what a run has encountered.
type census struct {
	commands, lives int
	kinds           map[string]int
	cases           map[[2]string]int
	errors          map[string]int // by sentence
	events          map[byte]int
}

func newCensus() *census {
	return &census{kinds: map[string]int{}, cases: map[[2]string]int{}, errors: map[string]int{}, events: map[byte]int{}}
}

func (m *census) note(kind, because string, err error) {
	m.kinds[kind]++
	m.cases[[2]string{kind, because}]++
	if err != nil {
		m.errors[sentence(err)]++
	}
}

// sentence returns a text that distinguishes errors of the same code.
func sentence(err error) string {
	if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) {
		return refusal.Code + ": " + refusal.Text
	}
	return err.Error()
}

// judge returns a summary, and what the package declares but the run never met.
func (x Trial[S, C, E, O]) judge(t *testing.T, met *census, wanted int) (missing []string, summary string) {
	t.Helper()
	complain := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	rarest, times := "", met.commands
	least := func(what string, n int) {
		if n == 0 {
			complain("never met: %s", what)
		}
		if n < times {
			rarest, times = what, n
		}
	}
	cases := map[string]int{}
	for of, n := range met.cases {
		cases[of[0]+": "+of[1]] = n
	}
	for name, n := range cases {
		if !slices.Contains(x.Cases, name) {
			complain("met %d times, but not among the cases: %q", n, name)
		}
	}
	for _, name := range x.Cases {
		least(name, cases[name])
	}
	declared := declarations(t, os.DirFS("."))
	for _, kind := range declared.commands {
		least("command "+kind, met.kinds[kind])
	}
	for _, name := range declared.errors {
		if x.Errors[name] == nil {
			complain("the package declares %s, and the trial does not know it", name)
			continue
		}
		least(name, met.errors[sentence(x.Errors[name])])
	}
	for tag := byte(1); ; tag++ {
		e, known := x.Rules.New(tag)
		if !known {
			break
		}
		least("event "+name(e), met.events[tag])
	}
	if met.commands < wanted || len(declared.commands) == 0 {
		complain("%d commands of %d kinds were tried, %d are wanted", met.commands, len(declared.commands), wanted)
	}
	out := fmt.Sprintf("%d commands in %d lives, %d cases; met least: %s, %d times", met.commands, met.lives, len(cases), rarest, times)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		out += fmt.Sprintf("\n%8d %s", cases[name], name)
	}
	return missing, out
}

// declared lists the commands and errors that an aggregate's source declares.
type declared struct{ commands, errors []string }

// declarations reads the commands and errors that a package declares: types with a
// method `command`, and variables whose names begin with Err.
func declarations(t *testing.T, folder fs.FS) (d declared) {
	t.Helper()
	files, err := fs.Glob(folder, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range syntax.Decls {
			d.add(decl)
		}
	}
	return d
}

func (d *declared) add(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv != nil && decl.Name.Name == "command" {
			if of, ok := decl.Recv.List[0].Type.(*ast.Ident); ok {
				d.commands = append(d.commands, of.Name)
			}
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR && strings.HasPrefix(v.Names[0].Name, "Err") {
				d.errors = append(d.errors, v.Names[0].Name)
			}
		}
	}
}
