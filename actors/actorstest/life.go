// Package actorstest tests the rules of aggregates with stories, laws and oracles.
// Only tests import it.
package actorstest

import (
	"bytes"
	"crypto/sha256"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/encoding"
)

// Epoch is the time at which every story begins.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// State is the state that an aggregate's events produce, in the form that a snapshot
// stores.
type State = any

// Event is an event as a journal stores it.
type Event = any

// Rules are an aggregate's functions.
type Rules[S State, C any, E Event] struct {
	// Zero makes the state of an aggregate that does not exist yet.
	Zero   func() S
	Decide func(S, C, time.Time) ([]E, error)
	Evolve func(S, E)
	Tag    func(E) byte
	New    func(byte) (E, bool)
}

// judge is the part of the test interface that testing and rapid share.
type judge interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// Life is one aggregate and the commands it has handled.
type Life[S State, C any, E Event] struct {
	Rules   Rules[S, C, E]
	State   S
	Now     time.Time
	History []E
}

// Begin returns an aggregate without events.
func (r Rules[S, C, E]) Begin() *Life[S, C, E] {
	return &Life[S, C, E]{Rules: r, State: r.Zero(), Now: Epoch}
}

// Do decides a command and applies its events, as the host does. It fails the test if
// Decide changes the state.
func (l *Life[S, C, E]) Do(t judge, c C) ([]E, error) {
	t.Helper()
	before := encode(t, l.State)
	events, err := l.Rules.Decide(l.State, c, l.Now)
	if !bytes.Equal(before, encode(t, l.State)) {
		t.Fatalf("Decide changed the state when given %#v", c)
	}
	for _, e := range events {
		l.Rules.Evolve(l.State, e)
	}
	l.History = append(l.History, events...)
	return events, err
}

// replay encodes and decodes events, then applies them to s.
func (r Rules[S, C, E]) replay(t judge, s S, events []E) S {
	t.Helper()
	for _, e := range events {
		r.Evolve(s, r.reread(t, e))
	}
	return s
}

// reread returns the event as decoded from its stored form.
func (r Rules[S, C, E]) reread(t judge, e E) E {
	t.Helper()
	back, ok := r.New(r.Tag(e))
	if !ok {
		t.Fatalf("tag %d of %s makes no event", r.Tag(e), name(e))
	}
	if err := encoding.Unmarshal(encode(t, e), back); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(message(e), message(back)) {
		t.Fatalf("%v came back as %v", e, back)
	}
	return back
}

func encode(t judge, m any) []byte {
	t.Helper()
	b, err := encoding.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func message(e any) proto.Message { return e.(proto.Message) }

func name(e any) string { return string(message(e).ProtoReflect().Descriptor().Name()) }

// Named returns the 16-byte id that belongs to a name, the zero id for the empty name.
func Named(name string) (id [16]byte) {
	if name == "" {
		return id
	}
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
	return id
}
