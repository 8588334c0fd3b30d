package actors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

var (
	messageType = reflect.TypeFor[proto.Message]()
	errorType   = reflect.TypeFor[error]()
	// openTypes are the interface types that fields may have. The values are of listed types.
	openTypes = []reflect.Type{
		errorType, reflect.TypeFor[agent.Command](), reflect.TypeFor[group.Command](), reflect.TypeFor[org.Command](), reflect.TypeFor[operator.Command](),
		reflect.TypeFor[webhook.Command](), reflect.TypeFor[journal.Effect](),
	}
)

// boundary checks that what crosses the boundary between actors is data.
type boundary struct {
	listed map[reflect.Type]bool
	// checked has the types that were walked, and whether they contain an open type.
	checked map[reflect.Type]bool
	faults  []string
}

func newBoundary(samples []any) *boundary {
	b := &boundary{listed: map[reflect.Type]bool{}, checked: map[reflect.Type]bool{}}
	for _, sample := range samples {
		t := reflect.TypeOf(sample)
		b.listed[t] = true
		b.check(t, t.String())
	}
	return b
}

// asksBoundary is that of the asks of this package's actors.
var asksBoundary = sync.OnceValue(func() *boundary { return newBoundary(AskTypes()) })

func (b *boundary) fault(path, why string) { b.faults = append(b.faults, path+": "+why) }

// check walks a type and reports whether it contains an open type.
func (b *boundary) check(t reflect.Type, path string) (open bool) {
	if open, checked := b.checked[t]; checked {
		return open
	}
	b.checked[t] = false
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr:
		b.fault(path, "a "+t.Kind().String())
	case reflect.Interface:
		if open = true; !slices.Contains(openTypes, t) {
			b.fault(path, "the interface "+t.String())
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		open = b.check(t.Elem(), path)
	case reflect.Map:
		open = b.check(t.Key(), path) || b.check(t.Elem(), path)
	case reflect.Struct:
		open = b.checkStruct(t, path)
	}
	b.checked[t] = open
	return open
}

func (b *boundary) checkStruct(t reflect.Type, path string) (open bool) {
	if t == reflect.TypeFor[time.Time]() {
		return false
	}
	encodes := reflect.PointerTo(t).Implements(messageType)
	for i := range t.NumField() {
		f := t.Field(i)
		name := path + "." + f.Name
		switch {
		case encodes && f.Anonymous:
			b.fault(name, "the encoding of what is embedded would stand for the whole")
		case encodes: // its own business
		case !f.IsExported():
			b.fault(name, "not exported")
		default:
			open = b.check(f.Type, name) || open
		}
	}
	return open
}

// judge returns what is wrong with a value that crosses the boundary.
func (b *boundary) judge(v any) (wrong []string) {
	if v == nil {
		return nil
	}
	t := reflect.TypeOf(v)
	if !b.listed[t] {
		return []string{fmt.Sprintf("%v is not in AskTypes", t)}
	}
	return b.judgeParts(reflect.ValueOf(v))
}

// judgeParts judges what the fields of open types contain.
func (b *boundary) judgeParts(v reflect.Value) (wrong []string) {
	if !b.checked[v.Type()] {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		switch _, refusal := v.Interface().(*parley.Refusal); {
		case v.IsNil():
		case v.Type() == errorType && !refusal:
			wrong = append(wrong, fmt.Sprintf("the error %v is a %T", v, v.Interface()))
		case v.Type() != errorType:
			wrong = b.judge(v.Interface())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			wrong = b.judgeParts(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			wrong = append(wrong, b.judgeParts(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			wrong = append(wrong, b.judgeParts(v.Field(i))...)
		}
	}
	return wrong
}

// watchAsks has a test fail if anything crosses the boundary that is not listed.
func watchAsks(t testing.TB, n *Node) {
	b := asksBoundary()
	n.engine.Asked = func(request, reply any) {
		for _, wrong := range append(b.judge(request), b.judge(reply)...) {
			t.Errorf("%T: %s", request, wrong)
		}
	}
}

// TestAsksAreData: everything that actors are asked and answer could cross a network.
func TestAsksAreData(t *testing.T) {
	for _, fault := range asksBoundary().faults {
		t.Error(fault)
	}
}

// TestAsksAreListed: each type that a kind handles, and each that a caller expects, is
// listed, whether or not a test asks for it.
func TestAsksAreListed(t *testing.T) {
	listed := map[string]bool{"any": true}
	agents := strings.NewReplacer(reflect.TypeFor[parley.AgentID]().String(), "parley.AgentID")
	for asked := range asksBoundary().listed {
		listed[agents.Replace(asked.String())] = true
	}
	for _, open := range append(openTypes, reflect.TypeFor[group.Query]()) {
		listed[open.String()] = true // handled as a whole
	}
	found := askedIn(t, ".", "actors")
	for name := range askedIn(t, "delivery", "delivery") {
		found[name] = true
	}
	for name := range found {
		if !listed[name] {
			t.Errorf("%s is not in AskTypes", name)
		}
	}
	for _, control := range []string{"actors.DirectSend", "group.CastVote", "*agent.State", "delivery.jobRequest", "delivery.attemptedJob"} {
		if !found[control] {
			t.Errorf("%s was not found", control)
		}
	}
}

// askedIn returns the names of the types that the kinds of a package switch over, and of
// the answers that its calls name.
func askedIn(t *testing.T, folder, name string) map[string]bool {
	found := map[string]bool{}
	add := func(e ast.Expr) {
		text := types.ExprString(e)
		bare := strings.TrimLeft(text, "*[]")
		if bare != "any" && bare != "bool" && !strings.Contains(bare, ".") {
			text = strings.TrimSuffix(text, bare) + name + "." + bare
		}
		found[text] = true
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSwitchStmt:
				if assign, ok := n.Assign.(*ast.AssignStmt); !ok || types.ExprString(assign.Rhs[0].(*ast.TypeAssertExpr).X) != "request" {
					break
				}
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						add(e)
					}
				}
			case *ast.IndexExpr:
				if called := types.ExprString(n.X); slices.Contains([]string{"host.Ask", "host.Query", "askGroup", "queryGroup"}, called) {
					if e := n.Index; types.ExprString(e) != "R" {
						add(e)
					}
				}
			}
			return true
		})
	}
	return found
}

// TestBoundaryControl plants what must not cross the boundary.
func TestBoundaryControl(t *testing.T) {
	type inner struct{ Late func() }
	type promoted struct {
		*webhook.Job
		Number int
	}
	for want, sample := range map[string]any{
		"a func":                     struct{ All []*inner }{},
		"a chan":                     struct{ Done chan bool }{},
		"not exported":               struct{ secret int }{},
		"the interface interface {}": struct{ Any any }{},
		"would stand for":            promoted{},
		"the interface sync":         struct{ Lock sync.Locker }{},
	} {
		if b := newBoundary([]any{sample}); len(b.faults) != 1 || !strings.Contains(b.faults[0], want) {
			t.Errorf("%T: got %q, want %q", sample, b.faults, want)
		}
	}
	b := asksBoundary()
	for _, planted := range []any{
		inner{},
		DirectSend{Content: Content{Forged: fmt.Errorf("no refusal")}},
		loggedChange{Command: agent.Create{}},
		NewAgent{Kids: []journal.Effect{journal.AppendFeed{}}},
	} {
		if wrong := b.judge(planted); len(wrong) != 1 {
			t.Errorf("%T: got %q", planted, wrong)
		}
	}
	sound := DirectSend{Content: Content{Forged: parley.ErrNotFound}}
	if wrong := append(b.judge(sound), b.judge(loggedChange{Command: agent.Logged{Command: agent.Revoke{}}})...); len(wrong) != 0 {
		t.Errorf("sound values: %q", wrong)
	}
}
