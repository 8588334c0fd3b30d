package parley_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

var shrinkWords = flag.Bool("words.shrink", false, "remove from testdata/words.txt what TestWords no longer needs")

// A privateWord is a word that this project once used in a meaning of its own. It
// makes readers guess, so the field's term takes its place.
type privateWord struct {
	// forms are the spellings, in lower case; several words in a row are separated by
	// spaces.
	forms   []string
	instead string
}

// privateWords have no use in this project: not in names, comments, texts or pages,
// and not in tests.
var privateWords = []privateWord{
	{[]string{"hall", "halls"}, "group actor state"},
	{[]string{"crew", "crews"}, "worker pool"},
	{[]string{"crowd", "crowds", "crowded"}, "overload limiter"},
	{[]string{"parcel", "parcels"}, "outbox message"},
	{[]string{"lane", "lanes"}, "outbox, or webhook queue"},
	{[]string{"tray", "trays"}, "durable queue of an actor"},
	{[]string{"testimony", "testimonies"}, "durability witness"},
	{[]string{"postman", "postmen"}, "mailer"},
	{[]string{"shelf", "shelves"}, "record cache, render cache"},
	{[]string{"glance", "glances"}, "query"},
	{[]string{"inquire", "inquires", "inquired"}, "query"},
	{[]string{"enlist", "enlists", "enlisted"}, "add to a list"},
	{[]string{"ledger", "ledgers"}, "multiset check"},
	{[]string{"inventory", "inventories"}, "list of file checksums"},
	{[]string{"roommate", "roommates"}, "packages of one layer"},
	{[]string{"roof", "roofs"}, "the command, parley/cmd"},
	{[]string{"whoever"}, "anyone who, the caller"},
	{[]string{"whomever"}, "the one that"},
	{[]string{"tells of", "told of"}, "reports, notifies about"},
	{[]string{"speaks of", "spoken of"}, "is about, names"},
	{[]string{"hears of", "heard of"}, "is notified about"},
	{[]string{"is asked whether"}, "checks whether"},
	{[]string{"comes to nothing", "came to nothing"}, "fails, has no effect"},
	{[]string{"stands behind"}, "depends on, waits for"},
}

// privateNames have a plain meaning too, in which comments and pages may use them.
// They are not names of packages, types, functions, methods or fields of the product and
// the bench, nor parts of such names.
var privateNames = []privateWord{
	{[]string{"house", "houses"}, "layers, server"},
	{[]string{"door", "doors"}, "server, handler"},
	{[]string{"gate", "gates"}, "admission limiter"},
	{[]string{"pace", "paces"}, "webhook throttle"},
	{[]string{"demand", "demands"}, "load"},
	{[]string{"question", "questions"}, "ask, query"},
	{[]string{"sheet", "sheets"}, "pooled buffer"},
	{[]string{"ticket", "tickets"}, "pending entry"},
	{[]string{"chapter", "chapters"}, "stream append"},
	{[]string{"settlement", "settlements"}, "cross-journal latch"},
	{[]string{"look at"}, "query"},
	{[]string{"wish", "wishes"}, "event filter"},
	{[]string{"patient"}, "ENOSPC-retrying file system"},
	{[]string{"orderly"}, "directory-syncing file system"},
	{[]string{"pen"}, "hashing writer"},
	{[]string{"mark", "marks"}, "receipt, or file hash"},
	{[]string{"unseen"}, "untransferred"},
	{[]string{"bear", "bears"}, "create a stream"},
	{[]string{"audit", "audits"}, "verify"},
	{[]string{"entrance", "entrances"}, "join server"},
	{[]string{"stranger", "strangers"}, "unauthenticated peer, unknown caller"},
	{[]string{"talk", "talks"}, "conversation"},
}

// privateWhole are private only as a whole name: shownAs is plain, a type shown is
// not.
var privateWhole = []privateWord{
	{[]string{"shown"}, "record cache"},
	{[]string{"facts"}, "lookups"},
	{[]string{"sight"}, "query"},
	{[]string{"room", "rooms"}, "package, or free capacity"},
	{[]string{"letter"}, "email"},
	{[]string{"carried"}, "transferred"},
	{[]string{"said"}, "saga message"},
	{[]string{"lines"}, "limited listener"},
}

// benchWords have no use in the bench: not in names, comments and texts, and not in tests. They
// were fixtures and parts of it, which have plain names now.
var benchWords = []privateWord{
	{[]string{"world", "worlds"}, "deployment"},
	{[]string{"village", "villages", "town", "towns"}, "group, fixture"},
	{[]string{"camera", "cameras", "film", "films"}, "observer, record"},
	{[]string{"ear", "ears"}, "listener"},
	{[]string{"courier", "couriers"}, "sender"},
	{[]string{"audit", "audits"}, "comparison, verification"},
	{[]string{"diary", "diaries", "onlooker", "onlookers"}, "recorder, observer"},
	{[]string{"dive", "dives", "diving"}, "read a deep page"},
	{[]string{"tide", "tides", "ebb", "ebbs", "ebbed"}, "deliveries after the last answer"},
	{[]string{"club", "clubs"}, "group"},
}

// wordsLeft lists which private words are still in use where, one per line: a folder
// of the top level, or "folder tests", then ": " and the word's first form. Lines are
// only ever removed.
const wordsLeft = "testdata/words.txt"

func TestWords(t *testing.T) {
	left, found := map[string]bool{}, map[string][]string{}
	for line := range strings.Lines(readFile(t, os.DirFS("."), wordsLeft)) {
		left[strings.TrimSpace(line)] = true
	}
	for _, use := range surveyWords(t, os.DirFS(".")) {
		found[use.key()] = append(found[use.key()], use.String())
	}
	for key, uses := range found {
		if !left[key] {
			t.Errorf("%s:\n\t%s", key, strings.Join(uses, "\n\t"))
		}
	}
	var still []string
	for key := range left {
		if found[key] != nil {
			still = append(still, key)
		} else if !*shrinkWords {
			t.Errorf("%s: %q is not needed any more; run: go test . -run TestWords -words.shrink", wordsLeft, key)
		}
	}
	if *shrinkWords {
		slices.Sort(still)
		if err := os.WriteFile(wordsLeft, []byte(strings.Join(still, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWordsControl puts each word into every kind of place that surveyWords reads.
func TestWordsControl(t *testing.T) {
	survey := func(file, text string) []wordUse {
		return surveyWords(t, fstest.MapFS{file: {Data: []byte(text)}})
	}
	expect := func(w privateWord, file, text string, want int) {
		t.Helper()
		uses := survey(file, text)
		if len(uses) != want || want > 0 && uses[0].word != w.forms[0] {
			t.Errorf("%s: %q: got %v, want %d of %q", file, text, uses, want, w.forms[0])
		}
	}
	for _, w := range privateWords {
		for _, form := range w.forms {
			name := exported(form)
			expect(w, "actors/a.go", "package actors\n\n// The "+form+" here.\n", 1)
			expect(w, "actors/a.go", "package actors\n\nconst text = \"a "+form+" b\"\n", 1)
			expect(w, "actors/a.go", "package actors\n\ntype my"+name+" int\n", 1)
			expect(w, "actors/a.go", "package actors\n\nfunc f() { in"+name+"Out := 1; _ = in"+name+"Out }\n", 1)
			expect(w, "actors/a_test.go", "package actors\n\n// The "+form+" here.\n", 1)
			expect(w, "docs/a.md", "The "+strings.ToUpper(form[:1])+form[1:]+".\n", 1)
		}
	}
	for _, w := range privateNames {
		for _, form := range w.forms {
			name := exported(form)
			expect(w, "http/a.go", "package http\n\ntype My"+name+" int\n", 1)
			expect(w, "http/a.go", "package http\n\nfunc (s T) of"+name+"() {}\n", 1)
			expect(w, "http/a.go", "package http\n\ntype t struct{ x"+name+" int }\n", 1)
			expect(w, "http/a.go", "package http\n\n// The "+form+" here.\n\nconst x = \""+form+"\"\n", 0)
			expect(w, "http/a_test.go", "package http\n\ntype My"+name+" int\n", 0)
			expect(w, "docs/a.md", "The "+form+".\n", 0)
		}
	}
	for _, w := range privateWhole {
		for _, form := range w.forms {
			expect(w, "http/a.go", "package http\n\ntype "+form+" int\n", 1)
			expect(w, "http/a.go", "package http\n\ntype "+form+"As int\n", 0)
		}
	}
	for _, w := range benchWords {
		for _, form := range w.forms {
			expect(w, "bench/a_test.go", "package bench\n\n// The "+form+" here.\n", 1)
			expect(w, "bench/a.go", "package bench\n\nfunc f() { "+form+" := 1; _ = "+form+" }\n", 1)
			expect(w, "http/a.go", "package http\n\n// The "+form+" here.\n", 0)
		}
	}
	expect(privateNames[1], "bench/a_test.go", "package bench\n\ntype Door int\n", 1)
	expect(privateWords[1], "actors/crew.go", "package actors\n", 1)
	expect(privateNames[0], "http/outdoors.go", "package http\n\ntype Indoors int // planes, traymen\n", 0)
	expect(privateWords[1], "actors/a.pb.go", "// Code generated by hand. DO NOT EDIT.\n\npackage actors\n\ntype Crew int\n", 0)
}

// exported spells words as part of an exported name.
func exported(words string) string {
	name := ""
	for word := range strings.FieldsSeq(words) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}

// A wordUse is one place where a private word is used.
type wordUse struct {
	file          string
	line          int
	test          bool
	word, instead string
}

// key is the use as words.txt lists it.
func (u wordUse) key() string {
	area, _, _ := strings.Cut(path.Dir(u.file), "/")
	if u.test {
		area += " tests"
	}
	return area + ": " + u.word
}

func (u wordUse) String() string {
	return fmt.Sprintf("%s:%d: %q is a private word; write: %s", u.file, u.line, u.word, u.instead)
}

// surveyWords returns the private words in the Go files and pages under root, except in
// generated code, in this file and in the specification.
func surveyWords(t *testing.T, root fs.FS) []wordUse {
	t.Helper()
	var uses []wordUse
	for _, s := range sources(t, root) {
		if s.generated || s.file == "words_test.go" {
			continue
		}
		look := func(pos token.Pos, text string, words []privateWord) {
			for _, w := range wordsIn(text, words) {
				line := 1
				if pos.IsValid() {
					line = s.lines.Position(pos).Line
				}
				uses = append(uses, wordUse{s.file, line, s.test, w.forms[0], w.instead})
			}
		}
		inBench, everywhere := strings.HasPrefix(s.file, "bench/"), privateWords
		if inBench {
			everywhere = slices.Concat(privateWords, benchWords)
		}
		look(token.NoPos, strings.TrimSuffix(path.Base(s.file), ".go"), everywhere)
		for _, group := range s.syntax.Comments {
			look(group.Pos(), group.Text(), everywhere)
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				look(n.Pos(), n.Name, everywhere)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					look(n.Pos(), text, everywhere)
				}
			}
			if s.test && !inBench {
				return true
			}
			for _, name := range namesDeclared(n) {
				look(name.Pos(), name.Name, privateNames)
				for _, w := range privateWhole {
					if slices.Contains(w.forms, strings.ToLower(name.Name)) {
						look(name.Pos(), name.Name, []privateWord{w})
					}
				}
			}
			return true
		})
	}
	for _, page := range pages(root) {
		number := 0
		for line := range bytes.Lines([]byte(readFile(t, root, page))) {
			number++
			for _, w := range wordsIn(string(line), privateWords) {
				uses = append(uses, wordUse{file: page, line: number, word: w.forms[0], instead: w.instead})
			}
		}
	}
	return slices.Compact(uses)
}

// namesDeclared lists what a node declares, except parameters and variables of
// functions.
func namesDeclared(n ast.Node) []*ast.Ident {
	var names []*ast.Ident
	fields := func(list *ast.FieldList) {
		for _, field := range list.List {
			names = append(names, field.Names...)
		}
	}
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.StructType:
		fields(n.Fields)
	case *ast.InterfaceType:
		fields(n.Methods)
	}
	return names
}

// wordsIn returns those of words that text contains. A name counts as its parts:
// crewSize contains crew.
func wordsIn(text string, words []privateWord) []privateWord {
	parts := " " + strings.Join(partsOf(text), " ") + " "
	var found []privateWord
	for _, w := range words {
		if slices.ContainsFunc(w.forms, func(form string) bool { return strings.Contains(parts, " "+form+" ") }) {
			found = append(found, w)
		}
	}
	return found
}

// partsOf splits text into lower-case words, at every character that is not a letter and
// before upper-case letters within names.
func partsOf(text string) []string {
	var parts []string
	begin, runes := 0, []rune(text)
	flush := func(end int) {
		if end > begin {
			parts = append(parts, strings.ToLower(string(runes[begin:end])))
		}
		begin = end
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			flush(i)
			begin = i + 1
		case i > begin && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush(i)
		}
	}
	flush(len(runes))
	return parts
}
