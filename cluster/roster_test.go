package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
)

// TestDescriptionsAreBounded: descriptions are written with every batch, so a node that joins
// cannot choose how large one is.
func TestDescriptionsAreBounded(t *testing.T) {
	for name, valid := range map[string]bool{
		"a": true, "münchen-2": true, strings.Repeat("é", 64): true,
		"": false, strings.Repeat("a", 65): false, "a\x1b[2J": false, "a\nb": false, " a": false, "a\xff": false, strings.Repeat("a", 30<<20): false,
	} {
		if err := (Description{Name: name, Address: "10.0.0.1:7000"}).Check(); (err == nil) != valid || err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.80q: %.300v", name, err)
		}
	}
	for address, valid := range map[string]bool{
		"node-a.example:7000": true, "[::1]:7000": true, "": false, "node-a": false, "a\n:7000": false, strings.Repeat("a", 300) + ":7000": false,
	} {
		if err := (Description{Name: "a", Address: address}).Check(); (err == nil) != valid {
			t.Errorf("%.80q: %v", address, err)
		}
	}
	long := Description{Name: strings.Repeat("𝄞", 64), Address: "a:1", Token: token(1, 1), Replaces: 1 << 63}
	long.Address = strings.Repeat("a", addressBytesMax-2) + ":1"
	if err := long.Check(); err != nil || len(long.Encode()) > descriptionBytesMax {
		t.Errorf("the longest description has %d bytes: %v", len(long.Encode()), err)
	}
	var g Group
	for what, request := range map[string]addMember{
		"a long name": {ID: 2, Described: Description{Name: strings.Repeat("a", 65), Address: "a:1"}.Encode()},
		"more fields": {ID: 2, Described: `{"name":"a","address":"a:1","more":"` + strings.Repeat("a", descriptionBytesMax) + `"}`},
		"no id":       {Described: Description{Name: "a", Address: "a:1"}.Encode()},
		"no JSON":     {ID: 2, Described: "a"},
	} {
		if err := g.add(context.Background(), request); err != errDescription {
			t.Errorf("a leader that is asked to add %s: %v", what, err)
		}
	}
}

// token is the number of a token.
func token(expires, number int64) string { return fmt.Sprintf("%016x%016x", expires, number) }

// TestFormerMembersAreForgotten: of a member that left, its token is kept for as long as it
// might be used again, also on a node whose clock is an hour behind.
func TestFormerMembersAreForgotten(t *testing.T) {
	describe := func(token string) string {
		return Description{Name: "node", Address: "node:7000", Token: token}.Encode()
	}
	const hour = 3600
	conf := &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}
	got := keptDescriptions(conf, map[uint64]string{
		1: describe(""), 2: describe(token(1*hour, 7)), 3: describe(token(10*hour, 1)), // members
		4: describe(""), 5: describe(token(8*hour, 9)), 6: describe("ff"), 7: "no JSON", // former ones, for good
		8: describe(token(8*hour+1, 2)),
	})
	want := map[uint64]string{
		1: describe(""), 2: describe(token(1*hour, 7)), 3: describe(token(10*hour, 1)), 8: Description{Token: token(8*hour+1, 2)}.Encode(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again := keptDescriptions(conf, got); !cmp.Equal(again, got) {
		t.Errorf("the next time something else is kept: %v", again)
	}
	if r := newRoster(conf, got); r.admitted(token(8*hour+1, 2)) != 8 || len(r.table) != 3 {
		t.Errorf("the tokens are %v, the members %v", r.tokens, r.table)
	}
}
