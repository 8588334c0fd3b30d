package parley_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of this module as a reader finds it. Files are read
// with go/parser rather than through `go list`: the test cache notices only
// files that the test process itself opens.
type source struct {
	file      string // slash path from the module root
	pkg       string // import path of its folder
	test      bool
	generated bool
	text      []byte
	syntax    *ast.File
	lines     *token.FileSet
}

// sources reads every Go file of the module under root and of the bench, leaving
// out other modules, test data and hidden folders.
func sources(t *testing.T, root fs.FS) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && skipFolder(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		lines := token.NewFileSet()
		syntax, err := parser.ParseFile(lines, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			file: name, pkg: strings.TrimSuffix("parley/"+path.Dir(name), "/."), test: strings.HasSuffix(name, "_test.go"),
			generated: ast.IsGenerated(syntax), text: text, syntax: syntax, lines: lines,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func skipFolder(root fs.FS, name string) bool {
	base := path.Base(name)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	if name == "bench" {
		return false // a module of its own for what it requires, not for how it is built
	}
	_, err := fs.Stat(root, name+"/go.mod")
	return err == nil
}

// surveyLayers holds the tree against the lattice and the locks and returns a
// complaint for each breach, beginning with the file.
func surveyLayers(t *testing.T, root fs.FS) []string {
	t.Helper()
	var complaints []string
	for _, s := range sources(t, root) {
		complain := func(format string, args ...any) {
			complaints = append(complaints, s.file+": "+fmt.Sprintf(format, args...))
		}
		if slices.Contains(bannedNames, path.Base(s.pkg)) {
			complain("%s is not a name that says what a package holds", path.Base(s.pkg))
		}
		here, ok := lattice[s.pkg]
		if !ok {
			complain("package %s is not on the map of layers_test.go", s.pkg)
			continue
		}
		for _, spec := range s.syntax.Imports {
			checkImport(s, here, spec, complain)
		}
		checkCalls(s, here, complain)
	}
	return complaints
}

func checkImport(s source, here place, spec *ast.ImportSpec, complain func(string, ...any)) {
	target, _ := strconv.Unquote(spec.Path.Value)
	switch {
	case target == "parley" || strings.HasPrefix(target, "parley/"):
		may := here.may
		if s.test {
			may = slices.Concat(may, here.tests, []string{s.pkg})
		}
		if !within(target, may) {
			complain("must not import %s: %s", target, here.why)
		}
		if target == "parley/http" && s.pkg != target && (spec.Name == nil || spec.Name.Name != "parleyhttp") {
			complain("imports parley/http otherwise than under the name parleyhttp: a bare http is the standard library's")
		}
	case !strings.Contains(strings.Split(target, "/")[0], "."):
		checkStd(s, here, target, complain)
	default:
		checkModule(s, target, complain)
	}
}

func checkStd(s source, here place, target string, complain func(string, ...any)) {
	if s.test || s.generated {
		return
	}
	if why, banned := bannedStd[target]; here.pure && banned {
		complain("must not import %s: %s", target, why)
	}
	if target == "log" && !strings.HasPrefix(s.pkg, "parley/cmd/") {
		complain("must not import log: where a log goes is decided on the roof")
	}
}

func checkModule(s source, target string, complain func(string, ...any)) {
	if slices.ContainsFunc(testModules, func(m string) bool { return inModule(target, m) }) {
		if !s.test && !strings.HasSuffix(s.pkg, "test") {
			complain("must not import %s: it is for tests", target)
		}
		return
	}
	if why, held := clientOnlyStd[s.pkg]; held && !s.test {
		complain("must not import %s: %s", target, why)
		return
	}
	for _, l := range locks {
		if !inModule(target, l.module) {
			continue
		}
		if !s.test && !within(s.pkg, l.floors) {
			complain("must not import %s: %s", target, l.why)
		}
		return
	}
	complain("imports %s, a module that has no floor in layers_test.go", target)
}

// checkCalls looks for functions that reach for the world and for goroutines
// in rules. It follows an import's local name, so an alias hides nothing.
func checkCalls(s source, here place, complain func(string, ...any)) {
	if s.test || s.generated {
		return
	}
	names := map[string]string{}
	for _, spec := range s.syntax.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		local := path.Base(target)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = target
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if here.pure {
				complain("line %d starts a goroutine: rules do not run, they are run", s.lines.Position(n.Pos()).Line)
			}
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && reachesOut(s.pkg, here, names[pkg.Name], n.Sel.Name) {
				complain("line %d uses %s.%s: clocks and surroundings are passed in", s.lines.Position(n.Pos()).Line, names[pkg.Name], n.Sel.Name)
			}
		}
		return true
	})
}

// reachesOut tells whether a use is of the world outside. Waiting is forbidden
// to rules and ground only: rooms and doors have real deadlines. The client
// runs under somebody else's roof and brings the system's clock by default, and
// to read clocks is the bench's trade.
func reachesOut(pkg string, here place, target, name string) bool {
	if strings.HasPrefix(pkg, "parley/cmd/") || strings.HasPrefix(pkg, "parley/bench/cmd/") || target == "time" && (pkg == "parley/http/client" || measures(pkg)) {
		return false
	}
	waits := slices.Contains(waitingCalls[target], name)
	return slices.Contains(bannedCalls[target], name) || waits && (here.pure || pkg == "parley")
}

// measures tells whether a package is of the bench, but not of its parts that
// only show what others measured.
func measures(pkg string) bool {
	return within(pkg, []string{"parley/bench", "parley/bench/..."}) && pkg != "parley/bench/report" && pkg != "parley/bench/result"
}

func inModule(target, module string) bool {
	return target == module || strings.HasPrefix(target, module+"/")
}

// within reports whether target is one of the patterns; a/... stands for what
// is below a.
func within(target string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, wild := strings.CutSuffix(p, "/...")
		return target == p || wild && strings.HasPrefix(target, below+"/")
	})
}
