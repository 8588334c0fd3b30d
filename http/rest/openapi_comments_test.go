package rest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"parley/client/api"
)

// comments are doc comments by type name and by Type.Field.
type comments map[string]string

// readComments reads the comments of the wire structs from the source in a folder, to use
// them as descriptions in the OpenAPI document.
func readComments(folder string) (comments, error) {
	c := comments{}
	files, _ := filepath.Glob(folder + "/*.go") // the pattern is valid
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range tree.Decls {
			if types, ok := declaration.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				c.read(types)
			}
		}
	}
	return c, nil
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
			c[named.Name.Name] = prose(doc, named.Name.Name, nil)
			continue
		}
		wire := wireNames(fields)
		c[named.Name.Name] = prose(doc, named.Name.Name, wire)
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				c[named.Name.Name+"."+name.Name] = prose(f.Doc, name.Name, wire)
			}
		}
	}
}

// wireNames maps the Go names of a struct's fields to the names that clients see.
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

// prose is a comment on one line, without its citations, as a description: it
// does not open with the name of what it describes, and names the fields of the
// struct as they are on the wire.
func prose(doc *ast.CommentGroup, name string, wire map[string]string) string {
	text := strings.Join(strings.Fields(doc.Text()), " ")
	for _, citation := range []string{" // spec:", " // docs:", " // source:"} {
		text, _, _ = strings.Cut(text, citation)
	}
	return inWire(evident.ReplaceAllString(withoutName(text, name), ""), wire)
}

var (
	// evident is what the document says elsewhere: the route, and the answer.
	evident     = regexp.MustCompile(`: (?:GET|POST|PUT|PATCH|DELETE) /[^\s.]*|(?: |^)The answer is (?:a|an) [^.]*\.`)
	capitalized = regexp.MustCompile(`\b[A-Z]\w*\b`)
	// goName finds words that can only be names in Go.
	goName = regexp.MustCompile(`^[A-Z][a-z0-9]*[A-Z]\w*$`)
)

// inWire replaces the names that fields have in Go. A plain capitalized word
// that opens a sentence is not one of them.
func inWire(text string, wire map[string]string) string {
	var b strings.Builder
	done := 0
	for _, at := range capitalized.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		if strings.HasSuffix(text[:at[0]], "-") {
			continue // the end of a header's name
		}
		opens := at[0] == 0 || strings.HasSuffix(text[:at[0]], ". ")
		if name, known := wire[word]; known && (!opens || goName.MatchString(word)) {
			b.WriteString(text[done:at[0]] + name)
			done = at[1]
		}
	}
	return b.String() + text[done:]
}

// withoutName drops the name that a comment of Go opens with, and the verb
// "is" or "are" after it.
func withoutName(text, name string) string {
	rest, opens := strings.CutPrefix(text, name+" ")
	if !opens {
		return text
	}
	verb, after, _ := strings.Cut(rest, " ")
	switch verb {
	case "is", "are":
		rest = after
	case "in", "of", "to", "for", "at", "from", "that", "which", "whose":
		return text // the name is the subject of a longer phrase
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
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
