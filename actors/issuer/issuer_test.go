package issuer_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/issuer"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*issuer.State, issuer.Command, issuer.Event]
	turn = actorstest.Turn[*issuer.State, issuer.Command, issuer.Event]
)

var rules = actorstest.Rules[*issuer.State, issuer.Command, issuer.Event]{
	Zero:   func() *issuer.State { return &issuer.State{} },
	Decide: issuer.Decide, Evolve: issuer.Evolve, Tag: issuer.Tag, New: issuer.New,
}

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

func parse(l *actorstest.Line, _ *life) issuer.Command {
	if l.Verb != "mint" {
		panic("no such verb: " + l.Verb)
	}
	return issuer.Mint{Kid: l.Text("key"), Public: []byte("public"), SealedSeed: []byte("sealed"), Force: l.Has("by-force"), AtOnce: l.Has("at-once")}
}

func show(life *life) string {
	kids := []string{}
	for _, k := range life.State.Published(life.Now) {
		kids = append(kids, k.Kid)
	}
	return fmt.Sprintf("published: %s; kept: %d", strings.Join(kids, " "), len(life.State.GetKeys()))
}

func TestLaws(t *testing.T) {
	minted := 0
	draw := func(t *rapid.T, _ *issuer.State) issuer.Command {
		minted++
		return issuer.Mint{
			Kid:    fmt.Sprint("k", minted-rapid.IntRange(0, 1).Draw(t, "known")),
			Public: []byte("p"), SealedSeed: []byte("s"), Force: rapid.Bool().Draw(t, "force"), AtOnce: rapid.Bool().Draw(t, "at once"),
		}
	}
	actorstest.Obey(t, rules, draw, law)
}

func law(t *rapid.T, turn turn) {
	if turn.Err != nil {
		t.Fatal(turn.Err)
	}
	before, after := turn.Before, turn.After
	published := after.Published(turn.Now)
	if after.Exists() && (after.Current() == nil || !proto.Equal(published[0], after.Current())) {
		t.Fatalf("the current key is not the first of those published: %v", after)
	}
	kids := map[string]bool{}
	for _, k := range after.GetKeys() {
		if kids[k.Kid] || (k.RetiredMs == 0) != (k.Kid == after.Current().Kid) {
			t.Fatalf("a duplicate kid, or two current keys: %v", after)
		}
		kids[k.Kid] = true
	}
	for _, k := range before.Published(turn.Now) {
		if !kids[k.Kid] {
			t.Fatalf("%s was removed while it was still published", k.Kid)
		}
	}
	if c := turn.Command.(issuer.Mint); len(turn.Events) > 0 && !c.Force && !before.Due(turn.Now, parley.SigningKeyLifetime) {
		t.Fatal("minted before it was due")
	}
}

// TestTokensNeverOutliveTheirKey: the lifetime of a token is shorter than the time for
// which its key stays published.
func TestTokensNeverOutliveTheirKey(t *testing.T) {
	if parley.TokenLifetime >= parley.SigningKeyAfterlife {
		t.Fatalf("tokens live %v, retired keys %v", parley.TokenLifetime, parley.SigningKeyAfterlife)
	}
}

func TestGolden(t *testing.T) {
	at := actorstest.Epoch.UnixMilli()
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&issuer.State{Keys: []*issuer.Key{
			{Kid: "kid", SealedSeed: []byte("sealed"), Public: []byte("public"), MintedMs: at, RetiredMs: at + 1, AtOnce: true},
		}},
		[]issuer.Event{&issuer.Minted{Kid: "kid", SealedSeed: []byte("sealed"), Public: []byte("public"), AtMs: at, AtOnce: true}},
	)
}
