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

// source is one parsed Go file of this module. Files are read with go/parser and not
// through `go list`, because the test cache tracks only the files that the test
// process itself opens.
type source struct {
	file      string // slash path from the module root
	pkg       string // import path of its folder
	test      bool
	generated bool
	text      []byte
	syntax    *ast.File
	lines     *token.FileSet
}

// sources parses every Go file of the module under root and of the bench. It skips
// other modules, test data and hidden folders.
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
		return false // its own go.mod is for its dependencies; the same rules apply
	}
	_, err := fs.Stat(root, name+"/go.mod")
	return err == nil
}

// surveyLayers compares the imports and calls of a tree with lattice and locks. It
// returns a complaint for each violation, which begins with the file.
func surveyLayers(t *testing.T, root fs.FS) []string {
	t.Helper()
	var complaints []string
	for _, s := range sources(t, root) {
		complain := func(format string, args ...any) {
			complaints = append(complaints, s.file+": "+fmt.Sprintf(format, args...))
		}
		if slices.Contains(bannedNames, path.Base(s.pkg)) {
			complain("%s is not a name that says what the package contains", path.Base(s.pkg))
		}
		here, ok := lattice[s.pkg]
		if !ok {
			complain("package %s is not in lattice of layers_test.go", s.pkg)
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
		if !s.test && within(s.pkg, public) && !within(target, public) {
			complain("must not import %s: %s", target, publicWhy)
		}
		if target == "parley/http" && s.pkg != target && (spec.Name == nil || spec.Name.Name != "parleyhttp") {
			complain("must import parley/http under the name parleyhttp: http is the standard library's")
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
		complain("must not import log: the command decides where logs go")
	}
}

func checkModule(s source, target string, complain func(string, ...any)) {
	if slices.ContainsFunc(testModules, func(m string) bool { return inModule(target, m) }) {
		if !s.test && !strings.HasSuffix(s.pkg, "test") {
			complain("must not import %s: it is for tests", target)
		}
		return
	}
	if within(s.pkg, public) && !s.test && !slices.ContainsFunc(publicModules, func(m string) bool { return inModule(target, m) }) {
		complain("must not import %s: %s", target, publicWhy)
		return
	}
	for _, l := range locks {
		if !inModule(target, l.module) {
			continue
		}
		if !s.test && !within(s.pkg, l.packages) {
			complain("must not import %s: %s", target, l.why)
		}
		return
	}
	complain("imports %s, a module that is not in locks of layers_test.go", target)
}

// checkCalls complains about calls that read the clock or the environment, and about
// goroutines in rules. It resolves the local names of imports, so aliases do not
// hide a call.
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
				complain("line %d starts a goroutine: rules are synchronous", s.lines.Position(n.Pos()).Line)
			}
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && reachesOut(s.pkg, here, names[pkg.Name], n.Sel.Name) {
				complain("line %d uses %s.%s: pass the clock or the setting as a parameter", s.lines.Position(n.Pos()).Line, names[pkg.Name], n.Sel.Name)
			}
		}
		return true
	})
}

// reachesOut reports whether a function reads the clock or the environment, or waits,
// in a package that must not. Waiting is forbidden in rules and the base package only:
// servers have real deadlines. The client uses the system's clock by default, because
// it runs in other programs, and the bench measures time.
func reachesOut(pkg string, here place, target, name string) bool {
	if strings.HasPrefix(pkg, "parley/cmd/") || strings.HasPrefix(pkg, "parley/bench/cmd/") || target == "time" && (pkg == "parley/client" || measures(pkg)) {
		return false
	}
	waits := slices.Contains(waitingCalls[target], name)
	return slices.Contains(bannedCalls[target], name) || waits && (here.pure || pkg == "parley/client/parley")
}

// measures reports whether a package belongs to the bench and takes measurements, as
// opposed to formatting them.
func measures(pkg string) bool {
	return within(pkg, []string{"parley/bench", "parley/bench/..."}) && pkg != "parley/bench/report" && pkg != "parley/bench/result"
}

func inModule(target, module string) bool {
	return target == module || strings.HasPrefix(target, module+"/")
}

// within reports whether target matches one of the patterns; a/... matches every
// package below a.
func within(target string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, wild := strings.CutSuffix(p, "/...")
		return target == p || wild && strings.HasPrefix(target, below+"/")
	})
}
