package wire_test

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"parley/actors/wire"
	"parley/client/parley"
)

// TestRoundTrip encodes random values of every type and expects them back.
func TestRoundTrip(t *testing.T) {
	types := newTypes()
	rapid.Check(t, func(t *rapid.T) {
		v := reflect.New(rapid.SampledFrom(dynamicTypes).Draw(t, "type")).Elem()
		fill(t, v, 2)
		checkRoundTrip(t, types, v.Interface())
	})
	checkRoundTrip(t, types, nil)
}

func equal(a, b any) bool {
	return cmp.Equal(a, b, protocmp.Transform(), cmp.Exporter(func(reflect.Type) bool { return true }))
}

func checkRoundTrip(t rapid.TB, types *wire.Types, value any) {
	t.Helper()
	b, err := types.Append([]byte("before"), value)
	if err != nil || !bytes.HasPrefix(b, []byte("before")) {
		t.Fatalf("%+v is encoded as %x, %v", value, b, err)
	}
	b = b[len("before"):]
	decoded, err := types.Value(b)
	if err != nil || !equal(decoded, value) {
		t.Fatalf("%#v\nis decoded as\n%#v, %v", value, decoded, err)
	}
	clear(b)
	if !equal(decoded, value) {
		t.Fatalf("%#v shares memory with its input", decoded)
	}
}

// Values at the edge of being left out come back as they were.
func TestZeros(t *testing.T) {
	types := newTypes()
	none, empty, zero := 0, "", time.Time{}
	for _, value := range []any{
		pointers{Int: &none, Text: &empty, At: &zero, Inner: &inner{}, Note: &Note{}},
		(*inner)(nil), (*Note)(nil), &inner{}, &Note{}, []string(nil),
		[]string{},
		[]byte(nil),
		[]byte{},
		[]any{nil, nil},
		[]any(nil),
		lists{Notes: []*Note{nil, {}}, Blobs: [][]byte{nil, {}}, Texts2: [][]string{nil, {}}, Commands: []command{nil, (*move)(nil)}},
		dynamics{Any: (*inner)(nil)},
		false, 0, "",
		time.Time{},
		time.Unix(0, 0).UTC(), time.Unix(0, 1).UTC(),
		[3]int{},
	} {
		checkRoundTrip(t, types, value)
	}
	local := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	b, _ := types.Append(nil, local)
	if at, err := types.Value(b); err != nil || at != local.UTC() {
		t.Errorf("%s is decoded as %v, %v", local, at, err)
	}
}

// TestFormat compares an encoding with what protobuf prescribes.
func TestFormat(t *testing.T) {
	b, err := newTypes().Append(nil, &move{To: parley.AgentID{15: 7}, Limit: new(int)})
	want := []byte("\x0a\x0f*wire_test.move" + "\x12\x14" + "\x0a\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" + "\x10\x00")
	if err != nil || !bytes.Equal(b, want) {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
}

// Nodes understand each other if the version of one removed a field and appended another.
func TestNeighbouringVersions(t *testing.T) {
	type thing struct {
		Name  string
		Dated []string
		Limit *int
	}
	older, newer, three := wire.NewTypes(), wire.NewTypes(), 3
	older.Add(thing{})
	old, oldWithout := thing{"a", []string{"x"}, &three}, thing{"a", nil, &three}
	{
		type thing struct {
			Name  string
			_     struct{}
			Limit *int
			Found struct{ Until time.Time }
		}
		newer.Add(thing{})
		b, _ := older.Append(nil, old)
		if got, err := newer.Value(b); err != nil || !reflect.DeepEqual(got, thing{Name: "a", Limit: &three}) {
			t.Errorf("the newer node gets %+v, %v", got, err)
		}
		b, _ = newer.Append(nil, thing{Name: "a", Limit: &three, Found: struct{ Until time.Time }{time.Unix(1, 0)}})
		if got, err := older.Value(b); err != nil || !reflect.DeepEqual(got, oldWithout) {
			t.Errorf("the older node gets %+v, %v", got, err)
		}
	}
}

// A type that cannot cross is rejected when it is registered.
func TestRejectedTypes(t *testing.T) {
	type loop struct{ Next *loop }
	type tree struct{ Children []tree }
	type limit struct{ B [256]byte }
	type hidden struct{ Embedded }
	type base struct{ N int }
	type other interface{ other() }
	n := 0
	p := &n
	cases := map[string]any{
		"func": struct{ F func() }{}, "chan": struct{ C chan int }{}, "map": struct{ M map[string]any }{}, "unsafe": struct{ P unsafe.Pointer }{},
		"uintptr": uintptr(0), "float32": float32(0), "complex": complex(0, 0), "unexported": struct{ n int }{}, "embedded pointer": struct{ *base }{},
		"loop": loop{}, "tree": tree{}, "pointer to pointer": &p, "pointer to slice": &[]int{}, "pointer to interface": new(any),
		"no command": struct{ O other }{}, "nil": nil, "refusal": &parley.Refusal{},
	}
	for name, sample := range cases {
		if !panics(func() { wire.NewTypes().Add(sample) }) {
			t.Errorf("%s: %T is accepted", name, sample)
		}
	}
	for _, sample := range []any{[]limit{}, hidden{}, struct{ base }{}, struct{ E error }{}, struct{ A any }{}, 0, 0} {
		if panics(func() { wire.NewTypes().Add(sample) }) {
			t.Errorf("%T is rejected", sample)
		}
	}
	types := wire.NewTypes()
	types.Add(rename{}, rename{})
	sameName := func() any { type rename struct{ N int }; return rename{} }()
	if !panics(func() { types.Add(sameName) }) {
		t.Error("two types of one name are accepted")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// A struct that embeds a message has the methods of that message, which do not encode the
// other fields.
func TestPromotedMethods(t *testing.T) {
	type job struct {
		ID int
		*Note
	}
	types := wire.NewTypes()
	types.Add(job{}, &job{})
	checkRoundTrip(t, types, job{1, &Note{Value: "a"}})
	checkRoundTrip(t, types, &job{1, &Note{Value: "a"}})
}

func TestUnregistered(t *testing.T) {
	types := wire.NewTypes()
	if b, err := types.Append(nil, rename{}); err == nil {
		t.Errorf("a type that is not registered is encoded as %x", b)
	}
	if b, err := types.Append(nil, []any{rename{}}); err == nil {
		t.Errorf("a type that is not registered is encoded within another as %x", b)
	}
	types.Add(struct{ C rename }{})
	if b, err := types.Append(nil, rename{}); err == nil {
		t.Errorf("a part of a registered type is encoded by itself as %x", b)
	}
	b, _ := newTypes().Append(nil, rename{"a"})
	if v, err := types.Value(b); err == nil {
		t.Errorf("a type that is not registered is decoded as %v", v)
	}
}

// Values are nested as deep as is allowed and no deeper, in either direction.
func TestDepth(t *testing.T) {
	types := newTypes()
	value, b := any("a"), []byte(nil)
	for depth := range 40 {
		encoded, err := types.Append(nil, value)
		if (err == nil) != (depth <= 16) {
			t.Errorf("a value in %d others: %v", depth, err)
		}
		if err == nil {
			checkRoundTrip(t, types, value)
			b = encoded
		} else {
			b = wrapped(b)
			if v, err := types.Value(b); err == nil {
				t.Errorf("a value in %d others is decoded: %v", depth, v)
			}
		}
		value = []any{value}
	}
}

// wrapped returns the encoding of a []any that holds an encoded value.
func wrapped(b []byte) []byte {
	items := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
	out := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "[]interface {}")
	return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), items)
}

// TestMemory decodes lists whose items take as much memory for as few bytes of input as
// possible: no input takes more than eight times its size, and 16 MiB.
func TestMemory(t *testing.T) {
	type large struct {
		B [30]uint64
		P *[31]uint64
	}
	types := newTypes()
	types.Add([]large{}, []*large{})
	for name, item := range map[string]string{
		"[]wire_test.large": "\x0a\x00", "[]*wire_test.large": "\x0a\x00", "[]interface {}": "\x0a\x00", "[]string": "\x0a\x00",
	} {
		content := strings.Repeat(item, 500_000)
		b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), content)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := types.Value(b)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*uint64(len(b))+20<<20 {
			t.Errorf("%s: %d bytes of input took %d bytes of memory, %v", name, len(b), got, err)
		}
	}
}

// Input that no encoder wrote is an error.
func TestMalformed(t *testing.T) {
	value := func(name, content string) []byte {
		return append(protowire.AppendString([]byte{0x0a}, name), content...)
	}
	for name, b := range map[string][]byte{
		"no name": []byte("\x12\x00"), "name twice": []byte("\x0a\x03int\x0a\x03int"), "cut tag": {0x80}, "cut name": []byte("\x0a\x03in"),
		"name of another wire type": {0x08, 0x01}, "content twice": value("int", "\x10\x02\x10\x02"), "content of another wire type": value("int", "\x12\x00"),
		"bool of 2": value("bool", "\x10\x02"), "int8 of 128": value("int8", "\x10\x80\x02"), "uint8 of 256": value("uint8", "\x10\x80\x02"),
		"instant of a billion nanoseconds": value("time.Time", "\x12\x06\x10\x80\x94\xeb\xdc\x03"), "seconds as bytes": value("time.Time", "\x12\x02\x0a\x00"),
		"array too short": value("[3]int", "\x12\x02\x08\x02"), "array too long": value("[3]int", "\x12\x08\x08\x02\x08\x02\x08\x02\x08\x02"),
		"id too short": value("*wire_test.move", "\x12\x03\x0a\x01a"), "fields do not ascend": value("*wire_test.move", "\x12\x04\x10\x02\x10\x02"),
		"nil of a string": value("[]string", "\x12\x02\x10\x01"), "item of another number": value("[]string", "\x12\x02\x18\x01"),
		"message": value("*wrapperspb.StringValue", "\x12\x01\x80"), "not a command": value("wire_test.nested", "\x12\x07\x0a\x05\x0a\x03int"),
		"group that does not end": value("int", "\x1b"),
	} {
		if v, err := newTypes().Value(b); err == nil {
			t.Errorf("%s: %x is decoded as %#v", name, b, v)
		}
	}
	for name, b := range map[string][]byte{"a later part of a value": value("int", "\x10\x02\x1a\x01a"), "a later field": value("*wire_test.move", "\x12\x04\x10\x02\x18\x01"), "a group": value("int", "\x1b\x1c")} {
		if v, err := newTypes().Value(b); err != nil {
			t.Errorf("%s: %x is decoded as %#v, %v", name, b, v, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	types := newTypes()
	got := types.Describe()
	for _, line := range []string{
		"error erased", "type *wrapperspb.StringValue = message wrapperspb.StringValue", "type bool = bool", "type time.Duration = int64",
		"type wire_test.rename = wire_test.rename", "struct wire_test.rename    1 Name string", "struct wire_test.scalars   18 Wait int64",
		"struct wire_test.everything    3 Pointers wire_test.pointers", "struct wire_test.lists   12 Grid [2][3]int",
		"struct wire_test.nested    2 Salts [2][4]byte", "struct wire_test.dynamics    3 Failed error",
		"struct wire_test.dynamics    2 Command any wire_test.command", "struct wire_test.inner    2 Note message wrapperspb.StringValue",
		"struct wire.errorParts    1 Refusal *wire.refusalParts",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}

// FuzzValue decodes arbitrary bytes. What it decodes has one encoding.
func FuzzValue(f *testing.F) {
	types := newTypes()
	random := rapid.Custom(func(t *rapid.T) []byte {
		v := reflect.New(rapid.SampledFrom(dynamicTypes).Draw(t, "type")).Elem()
		fill(t, v, 2)
		b, _ := types.Append(nil, v.Interface())
		return b
	})
	for seed := range 50 {
		f.Add(random.Example(seed))
	}
	f.Add(types.AppendError(nil, errErased.With("n", []any{1, nil})))
	f.Add(types.AppendError(nil, errExists))
	f.Fuzz(func(t *testing.T, b []byte) {
		if value, err := types.Value(b); err == nil {
			encoded, err := types.Append(nil, value)
			if err != nil {
				t.Fatalf("%x is decoded as %#v, which cannot be encoded: %v", b, value, err)
			}
			again, err := types.Value(encoded)
			if twice, _ := types.Append(nil, again); err != nil || !bytes.Equal(twice, encoded) {
				t.Fatalf("%#v is encoded as %x and then as %x, %v", value, encoded, twice, err)
			}
		}
		if decoded, failed := types.Error(b); failed == nil {
			encoded := types.AppendError(nil, decoded)
			again, failed := types.Error(encoded)
			if twice := types.AppendError(nil, again); failed != nil || !bytes.Equal(twice, encoded) {
				t.Fatalf("%#v is encoded as %x and then as %x, %v", decoded, encoded, twice, failed)
			}
		}
	})
}
