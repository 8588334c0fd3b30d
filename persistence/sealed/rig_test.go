package sealed

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/layout"
	"parley/persistence/seal"
	"parley/persistence/seal/sealtest"
)

// Slots of a store with four journals: near and near2 share one, far has another.
const (
	near  parley.Slot = 0
	near2 parley.Slot = 4
	far   parley.Slot = parley.Slots / 2
)

// rig is a layer over a store on a disk in memory.
type rig struct {
	testing.TB
	journals int
	disk     *vfs.MemFS
	keys     *sealtest.Keys
	sealer   *seal.Sealer
	store    *persistence.Store
	// below records what the layer gives to the store.
	below *recorder
	layer journal.Journal
	ids   uint64
}

func newRig(t testing.TB, journals int) *rig {
	r := &rig{TB: t, journals: journals, disk: vfs.NewMem(), keys: &sealtest.Keys{}}
	r.sealer = seal.New(r.keys, [32]byte{1})
	r.open()
	t.Cleanup(func() { r.must(r.store.Close()) })
	return r
}

func (r *rig) open() {
	r.Helper()
	store, err := persistence.Open("journal", persistence.Options{
		FS: r.disk, Journals: r.journals, Clock: func() time.Time { return testStart }, Logger: slog.New(slog.DiscardHandler),
		CacheBytes: 1 << 20, MemTableBytes: 256 << 10,
	})
	r.must(err)
	r.must(store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}))
	r.store, r.below = store, &recorder{Journal: store.Journal}
	r.layer = New(journal.Of(r.below), r.sealer)
}

func (r *rig) restart() {
	r.Helper()
	r.must(r.store.Close())
	r.open()
}

// erase destroys the key of an organization.
func (r *rig) erase(org parley.OrgID) {
	r.keys.Erase(org)
	r.sealer.Forget(org)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// newID returns a new id in a slot.
func newID[T ~[16]byte](r *rig, slot parley.Slot) T {
	var b [10]byte
	r.ids++
	binary.BigEndian.PutUint64(b[:], r.ids)
	return parley.NewID[T](slot, testStart, b)
}

func (r *rig) org() parley.OrgID { return newID[parley.OrgID](r, near) }

func (r *rig) stream(kind journal.StreamKind, slot parley.Slot) journal.Stream {
	return journal.Stream{Kind: kind, ID: newID[parley.AnyID](r, slot)}
}

// appendTo appends an entry to any journal and returns its outcome.
func appendTo(j journal.Journal, e *journal.Entry) error {
	if e.At.IsZero() {
		e.At = testStart
	}
	released := make(chan error, 2)
	e.Release = func(err error) { released <- err }
	j.Append(e)
	return <-released
}

// append appends an entry of a stream that has seq events, by a new activation.
func (r *rig) append(s journal.Stream, seq uint64, e *journal.Entry) error {
	activation := r.store.NextActivation()
	err := appendTo(r.store.Journal, &journal.Entry{Slot: s.Slot(), Stream: s, Activation: activation, Activate: true})
	r.must(err)
	e.Slot, e.Stream, e.Activation, e.Expect = s.Slot(), s, activation, seq
	return appendTo(r.layer, e)
}

// cipher is that of the layer.
func (r *rig) cipher() cipher { return cipher{r.sealer} }

// view calls look with a view of the layer.
func (r *rig) view(look func(journal.View)) {
	v := r.layer.View()
	defer v.Close()
	look(v)
}

// archive calls look with an archive.
func (r *rig) archive(look func(*Archive)) {
	a := NewArchive(r.store.Archive(), r.sealer)
	look(a)
	r.must(a.Close())
}

// pairs returns everything that the engine stores.
func (r *rig) pairs() (all [][2][]byte) {
	a := r.store.Archive()
	r.must(a.Pairs(func(key, value []byte) error {
		all = append(all, [2][]byte{bytes.Clone(key), bytes.Clone(value)})
		return nil
	}))
	r.must(a.Close())
	return all
}

// pair returns the value of the only key of a family that ends as given.
func (r *rig) pair(family byte, end []byte) (key, value []byte) {
	r.Helper()
	for _, p := range r.pairs() {
		if _, f := layout.FamilyOf(p[0]); f == family && bytes.HasSuffix(p[0], end) {
			if key != nil {
				r.Fatalf("two keys of family %c end in %x", family, end)
			}
			key, value = p[0], p[1]
		}
	}
	if key == nil {
		r.Fatalf("no key of family %c ends in %x", family, end)
	}
	return key, value
}

// recorder is a journal that records every byte that it is given.
type recorder struct {
	journal.Journal
	mu    sync.Mutex
	given []byte
	count int
}

func (j *recorder) Append(e *journal.Entry) {
	j.mu.Lock()
	j.count++
	j.given = append(bytesOf(reflect.ValueOf(e), j.given), '|')
	j.mu.Unlock()
	j.Journal.Append(e)
}

// contains reports whether an entry contained a text.
func (j *recorder) contains(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Contains(j.given, []byte(text))
}

func (j *recorder) entries() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

var recordType = reflect.TypeFor[journal.Record]()

// bytesOf appends every byte string and text in a value to b. Of a record it takes what
// is stored: Data is for readers.
func bytesOf(v reflect.Value, b []byte) []byte {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			b = bytesOf(v.Elem(), b)
		}
	case reflect.String:
		b = append(append(b, v.String()...), '|')
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(append(b, v.Bytes()...), '|')
		}
		for i := range v.Len() {
			b = bytesOf(v.Index(i), b)
		}
	case reflect.Struct:
		if v.Type() == recordType {
			r := v.Interface().(journal.Record)
			return append(append(b, r.Bytes()...), '|')
		}
		for i := range v.NumField() {
			b = bytesOf(v.Field(i), b)
		}
	default: // numbers, ids and functions have no text
	}
	return b
}

// texts returns the events of a stream.
func texts(t testing.TB, v eventReader, s journal.Stream) (all []string) {
	t.Helper()
	err := v.Events(s, 1, false, func(_ uint64, _ int64, f journal.StoredEvent) bool {
		all = append(all, string(rune('0'+f.Tag))+string(f.Data))
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// tester is a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

func expect[T comparable](t tester, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectAll(t tester, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
