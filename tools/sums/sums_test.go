// Package sums checks that every type switch over a sum type of the product names
// every case.
//
// A sum type is an interface with an unexported method and the comment
// //sumtype:decl: events and commands of the aggregates, effects of the journal. The
// compiler does not complain when a switch lacks the case of a new event, and the
// event would silently be ignored.
package sums

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gochecksumtype "github.com/alecthomas/go-check-sumtype"
	"golang.org/x/tools/go/packages"
)

// load type-checks the packages of the product. overlay replaces the contents of
// files, by absolute path.
func load(t *testing.T, overlay map[string][]byte, patterns ...string) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypes | packages.NeedTypesSizes |
			packages.NeedImports | packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles,
		Dir: "../..", Overlay: overlay,
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// complaints runs the checker. A default clause does not count as naming the cases.
func complaints(pkgs []*packages.Package) []string {
	var all []string
	for _, err := range gochecksumtype.Run(pkgs, gochecksumtype.Config{}) {
		all = append(all, err.Error())
	}
	return all
}

func TestSums(t *testing.T) {
	pkgs := load(t, nil, "./...")
	for _, pkg := range pkgs {
		for _, err := range pkg.Errors {
			t.Errorf("%s: %v", pkg.PkgPath, err)
		}
	}
	for _, complaint := range complaints(pkgs) {
		t.Error(complaint)
	}
	sums := declared(t, pkgs)

	// Control: without its first case, each of the switches has to be reported.
	overlay, mutated, switched, concerned := map[string][]byte{}, map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, s := range switchesOver(pkgs, sums) {
		text := overlay[s.file]
		if text == nil {
			text = slices.Clone(s.text)
			overlay[s.file] = text
		}
		for i := s.from; i < s.to; i++ {
			if text[i] != '\n' { // positions stay what they were
				text[i] = ' '
			}
		}
		mutated[s.position] = true
		switched[s.sum]++
		concerned[s.pkg], concerned[s.sum[:strings.LastIndex(s.sum, ".")]] = true, true
	}
	reported := complaints(load(t, overlay, slices.Collect(maps.Keys(concerned))...))
	for position := range mutated {
		if !slices.ContainsFunc(reported, func(c string) bool { return strings.HasPrefix(c, position+":") }) {
			t.Errorf("control: %s lacks a case, which was not reported", position)
		}
	}
	for sum := range sums {
		if switched[sum] == 0 {
			t.Errorf("%s is declared as a sum type, but no switch handles its cases", sum)
		}
	}
	t.Logf("%d switches over %d sum types", len(mutated), len(sums))
}

// declared returns the sum types of the product. Every sealed interface has to be one.
func declared(t *testing.T, pkgs []*packages.Package) map[string]bool {
	t.Helper()
	sums, comment := map[string]bool{}, regexp.MustCompile(`(?m)^//sumtype:decl$`)
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				group, ok := n.(*ast.GenDecl)
				if !ok || group.Tok != token.TYPE {
					return true
				}
				for _, spec := range group.Specs {
					spec := spec.(*ast.TypeSpec)
					name := pkg.PkgPath + "." + spec.Name.Name
					annotated := slices.ContainsFunc([]*ast.CommentGroup{group.Doc, spec.Doc}, func(doc *ast.CommentGroup) bool {
						return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return comment.MatchString(c.Text) })
					})
					switch {
					case annotated:
						sums[name] = true
					case sealed(pkg.Types.Scope().Lookup(spec.Name.Name)):
						t.Errorf("%s has an unexported method without parameters and results: declare it as a sum type with //sumtype:decl", name)
					}
				}
				return true
			})
		}
	}
	if len(sums) == 0 {
		t.Error("the product declares no sum type")
	}
	return sums
}

// sealed reports whether an object is an interface with a method that only its own
// package can implement and that does nothing, which is how sum types are written.
func sealed(object types.Object) bool {
	if object == nil {
		return false
	}
	i, ok := object.Type().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for method := range i.Methods() {
		signature := method.Signature()
		if !method.Exported() && signature.Params().Len() == 0 && signature.Results().Len() == 0 {
			return true
		}
	}
	return false
}

// A typeSwitch is a switch over a sum type and where its first case is in the file.
type typeSwitch struct {
	pkg, sum, position, file string
	text                     []byte
	from, to                 int
}

func switchesOver(pkgs []*packages.Package, sums map[string]bool) []typeSwitch {
	var all []typeSwitch
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSwitchStmt)
				if !ok {
					return true
				}
				sum := types.TypeString(pkg.TypesInfo.TypeOf(operand(s)), nil)
				first, ok := s.Body.List[0].(*ast.CaseClause)
				if !sums[sum] || !ok || first.List == nil {
					return true
				}
				at := pkg.Fset.Position(s.Pos())
				text, err := os.ReadFile(at.Filename)
				if err != nil || !bytes.HasPrefix(text[pkg.Fset.Position(first.Pos()).Offset:], []byte("case ")) {
					panic(fmt.Sprintf("%s cannot be read: %v", at, err))
				}
				all = append(all, typeSwitch{
					pkg.PkgPath, sum, fmt.Sprintf("%s:%d", at.Filename, at.Line), at.Filename, text,
					pkg.Fset.Position(first.Pos()).Offset, pkg.Fset.Position(first.End()).Offset,
				})
				return true
			})
		}
	}
	return all
}

// operand is the x of switch x.(type) and of switch y := x.(type).
func operand(s *ast.TypeSwitchStmt) ast.Expr {
	switch assign := s.Assign.(type) {
	case *ast.AssignStmt:
		return assign.Rhs[0].(*ast.TypeAssertExpr).X
	case *ast.ExprStmt:
		return assign.X.(*ast.TypeAssertExpr).X
	}
	panic("a type switch without an operand")
}
