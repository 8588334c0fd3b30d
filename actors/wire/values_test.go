package wire_test

import (
	"errors"
	"math"
	"reflect"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"parley/actors/wire"
	"parley/client/parley"
)

type (
	status  int32
	digest  [4]byte
	command interface{ command() }
	rename  struct{ Name string }
	move    struct {
		To    parley.AgentID
		Limit *int
	}
	// nested is a command that has a command.
	nested struct {
		Command command
		Salts   [2][4]byte
	}
	inner struct {
		N    int
		Note *Note
	}
	scalars struct {
		Bool   bool
		Int    int
		Int8   int8
		Int16  int16
		Int32  int32
		Int64  int64
		Uint   uint
		Uint8  uint8
		Uint16 uint16
		Uint32 uint32
		Uint64 uint64
		Float  float64
		Text   string
		Bytes  []byte
		ID     parley.AgentID
		Digest digest
		At     time.Time
		Wait   time.Duration
		Status status
	}
	pointers struct {
		Bool   *bool
		Int    *int
		Float  *float64
		Text   *string
		Status *status
		ID     *parley.AgentID
		At     *time.Time
		Inner  *inner
		Note   *Note
	}
	lists struct {
		Bools    []bool
		Ints     []int
		Texts    []string
		Blobs    [][]byte
		IDs      []parley.AgentID
		Times    []time.Time
		Inners   []inner
		Pointers []*inner
		Notes    []*Note
		Limits   []*int
		Texts2   [][]string
		Grid     [2][3]int
		Any      []any
		Commands []command
		Errors   []error
	}
	dynamics struct {
		Any     any
		Command command
		Failed  error
	}
	everything struct {
		scalars
		_        struct{}
		Pointers pointers
		lists
		*Embedded
		Dynamics dynamics
	}
	// Embedded is embedded as a pointer.
	Embedded struct{ Inner inner }
)

func (rename) command() {}
func (*move) command()  {}
func (nested) command() {}

// Note is a protobuf message. Its field has number 1.
type Note = wrapperspb.StringValue

var (
	errErased = parley.ErrGone.Distinct().Saying("It was erased.")
	errExists = errors.New("it exists")
)

func newTypes() *wire.Types {
	t := wire.NewTypes()
	t.Add(rename{}, &move{}, nested{}, inner{}, &inner{}, &Note{}, scalars{}, pointers{}, lists{}, dynamics{}, everything{},
		[]parley.AgentID(nil), status(0), []command(nil), [3]int{})
	t.AddError("erased", errErased)
	t.AddError("exists", errExists)
	return t
}

// commandTypes are what a command is, dynamicTypes what an any is.
var (
	commandTypes = []reflect.Type{reflect.TypeFor[rename](), reflect.TypeFor[*move](), reflect.TypeFor[nested]()}
	dynamicTypes = append([]reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[uint64](), reflect.TypeFor[float64](),
		reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[]string](), reflect.TypeFor[[]any](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[status](), reflect.TypeFor[inner](),
		reflect.TypeFor[*inner](), reflect.TypeFor[*Note](), reflect.TypeFor[[]parley.AgentID](), reflect.TypeFor[[3]int](),
		reflect.TypeFor[dynamics](), reflect.TypeFor[lists](), reflect.TypeFor[everything](),
	}, commandTypes...)
)

// fill draws a value. At depth 0 it leaves interfaces nil.
func fill(t *rapid.T, v reflect.Value, depth int) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		if rapid.Bool().Draw(t, "set") {
			*at = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		}
		return
	case *Note:
		at.Value = rapid.String().Draw(t, "Note")
		return
	case *error:
		if depth > 0 {
			*at = drawError(t, depth-1)
		}
		return
	}
	if kind := v.Kind(); (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Interface) && rapid.IntRange(0, 3).Draw(t, "nil") == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(math.MaxInt64) >> (64 - v.Type().Bits())
		v.SetInt(rapid.Int64Range(-most-1, most).Draw(t, "int"))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Max(math.MaxUint64>>(64-v.Type().Bits())).Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				fill(t, exposed(v.Field(i)), depth)
			}
		}
	case reflect.Interface:
		if depth == 0 {
			return
		}
		of := rapid.SampledFrom(dynamicTypes).Draw(t, "type")
		if v.NumMethod() > 0 {
			of = rapid.SampledFrom(commandTypes).Draw(t, "command")
		}
		value := reflect.New(of).Elem()
		fill(t, value, depth-1)
		v.Set(value)
	}
}

// exposed lets a test take the address of an embedded struct that is not exported.
func exposed(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

func drawError(t *rapid.T, depth int) error {
	r := parley.Refuse(parley.Reason(rapid.Uint8().Draw(t, "reason")), rapid.String().Draw(t, "code"), rapid.String().Draw(t, "text"))
	switch rapid.IntRange(0, 4).Draw(t, "error") {
	case 0:
		return nil
	case 1:
		return errExists
	case 2:
		r = errErased.Saying("Also erased.")
	case 3:
		return errors.Join(r, errExists)
	}
	if rapid.Bool().Draw(t, "of one") {
		r = r.ForOne()
	}
	for range rapid.IntRange(0, 2).Draw(t, "members") {
		var value any
		fill(t, reflect.ValueOf(&value).Elem(), depth)
		r = r.With(rapid.String().Draw(t, "member"), value)
	}
	return r
}
