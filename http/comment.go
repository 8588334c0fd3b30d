package http

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"

	"parley/http/api"
)

// wireSource is the source of the wire structs: their comments are the
// document's descriptions, so that one sentence serves both readers.
//
//go:embed api/*.go
var wireSource embed.FS

// comments are doc comments by type name and by Type.Field.
type comments map[string]string

func readComments() comments {
	c := comments{}
	files, _ := wireSource.ReadDir("api")
	for _, file := range files {
		source, err := wireSource.ReadFile("api/" + file.Name())
		if err != nil || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file.Name(), source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, declaration := range tree.Decls {
			if types, ok := declaration.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				c.read(types)
			}
		}
	}
	return c
}

func (c comments) read(types *ast.GenDecl) {
	for _, spec := range types.Specs {
		named := spec.(*ast.TypeSpec)
		doc := named.Doc
		if doc == nil {
			doc = types.Doc
		}
		fields, ok := named.Type.(*ast.StructType)
		if !ok {
			c[named.Name.Name] = prose(doc, nil)
			continue
		}
		wire := wireNames(fields)
		c[named.Name.Name] = prose(doc, wire)
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				c[named.Name.Name+"."+name.Name] = prose(f.Doc, wire)
			}
		}
	}
}

// wireNames gives the Go names of a struct's fields the names they have for a
// client.
func wireNames(fields *ast.StructType) map[string]string {
	names := map[string]string{}
	for _, f := range fields.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		for _, key := range []string{"path", "query", "header", "json"} {
			name, _, _ := strings.Cut(tag.Get(key), ",")
			if name == "" || name == "-" {
				continue
			}
			for _, field := range f.Names {
				names[field.Name] = name
			}
			break
		}
	}
	return names
}

// goName finds words that can only be names of Go fields.
var goName = regexp.MustCompile(`\b[A-Z][a-z0-9]*[A-Z]\w*\b`)

// prose is a comment on one line, without its citations, in the words of the
// wire: the field that a comment opens with, and any other of the struct.
func prose(doc *ast.CommentGroup, wire map[string]string) string {
	text := strings.Join(strings.Fields(doc.Text()), " ")
	for _, citation := range []string{" // spec:", " // contract:"} {
		text, _, _ = strings.Cut(text, citation)
	}
	if first, rest, ok := strings.Cut(text, " "); ok && wire[first] != "" {
		text = wire[first] + " " + rest
	}
	return goName.ReplaceAllStringFunc(text, func(word string) string {
		if name, known := wire[word]; known {
			return name
		}
		return word
	})
}

func (c comments) of(t reflect.Type) string {
	if !fromWire(t) || t.NumField() == 0 {
		return ""
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	return c[name]
}

func (c comments) ofField(owner reflect.Type, index []int) string {
	for i, at := range index {
		sf := owner.Field(at)
		if i == len(index)-1 {
			name, _, _ := strings.Cut(owner.Name(), "[")
			if fromWire(owner) {
				return c[name+"."+sf.Name]
			}
			return ""
		}
		owner = sf.Type
	}
	return ""
}

func fromWire(t reflect.Type) bool {
	return t != nil && t.PkgPath() == reflect.TypeFor[api.Object]().PkgPath()
}
