package actorstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Golden compares the encodings of a snapshot and of one event of each kind with a
// file. A changed line means that stored data is now read differently. Every example
// must set all its fields, and every tag needs an example.
func Golden[S State, C any, E Event](t *testing.T, path string, r Rules[S, C, E], snapshot S, examples []E) {
	if m, ok := any(snapshot).(proto.Message); ok {
		full(t, m)
	}
	if back := r.thaw(t, snapshot); !same(t, snapshot, back) {
		t.Fatalf("%v came back as %v", snapshot, back)
	}
	for i, e := range examples {
		full(t, message(e))
		r.reread(t, e)
		if tag := r.Tag(e); int(tag) != i+1 {
			t.Fatalf("%s has tag %d at position %d", name(e), tag, i+1)
		}
	}
	for tag := range 256 {
		if _, ok := r.New(byte(tag)); ok != (1 <= tag && tag <= len(examples)) {
			t.Fatalf("tag %d: known is %v, with %d examples", tag, ok, len(examples))
		}
	}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		out := strings.Builder{}
		switch d.Cmd {
		case "snapshot":
			fmt.Fprintf(&out, "%s %x\n", name(snapshot), encode(t, snapshot))
		case "events":
			for _, e := range examples {
				fmt.Fprintf(&out, "%d %s %x\n", r.Tag(e), name(e), encode(t, e))
			}
		default:
			t.Fatalf("%s: %q is neither snapshot nor events", d.Pos, d.Cmd)
		}
		return out.String()
	})
}

// full fails the test if a field of m, or of a message in it, is not set.
func full(t *testing.T, m proto.Message) {
	t.Helper()
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case !r.Has(f):
			t.Fatalf("the example of %s leaves out %s", r.Descriptor().Name(), f.Name())
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for j := range r.Get(f).List().Len() {
				full(t, r.Get(f).List().Get(j).Message().Interface())
			}
		case f.Kind() == protoreflect.MessageKind:
			full(t, r.Get(f).Message().Interface())
		}
	}
}
