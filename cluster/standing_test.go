package cluster

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestClaimsOfStrangers: a node that is no member, such as one that was removed, ends a node with
// nothing that it says, unless that node knows of nobody else: then it may be an older copy from
// before the others came.
func TestClaimsOfStrangers(t *testing.T) {
	const stranger, former = 9, 4
	told, lacks := askAcknowledged{ID: stranger, YouDiverged: true}, askAcknowledged{ID: stranger, YourIndex: 1 << 30, YourTerm: 1 << 20}
	other := askAcknowledged{ID: stranger, Member: true, Index: 1, Term: 77, Sum: 1}
	removed := lacks
	removed.ID = former
	for name, c := range map[string]struct {
		members int
		claim   askAcknowledged
		ends    error
	}{
		"it diverged":                         {3, told, nil},
		"it lacks entries":                    {3, lacks, nil},
		"it has another entry":                {3, other, nil},
		"it diverged, and is alone":           {1, told, nil},
		"it lacks entries, and is alone":      {1, lacks, ErrOlderCopy},
		"it has another entry, and is alone":  {1, other, ErrDiverged},
		"a former member says that of it":     {1, removed, nil},
		"the node itself has diverged":        {1, askAcknowledged{ID: stranger, Diverged: true, Member: true, Index: 1, Term: 77}, nil},
		"it knows nothing of the node at all": {1, askAcknowledged{ID: stranger}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g, groups := startGroup(t, func() vfs.FS { return vfs.NewMem() }, c.members)
			var ended atomic.Pointer[error]
			g.of.failed = func(err error) { ended.CompareAndSwap(nil, &err) }
			for _, request := range []any{described(former), removeMember{former}} {
				if err := g.ask(t, groups, request); err != nil {
					t.Fatal(err)
				}
			}
			n := g.leads(t)
			replica, err := g.stores[n].Replica()
			if err != nil {
				t.Fatal(err)
			}
			groups[n].id = uint64(n + 1)
			if err := groups[n].Open(g.logs[n], replica, Description{Name: "a", Address: "a:1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := groups[n].answerClaim(t.Context(), c.claim, false); err != nil {
				t.Fatal(err)
			}
			var got error
			if e := ended.Load(); e != nil {
				got = *e
			}
			if !errors.Is(got, c.ends) || (got == nil) != (c.ends == nil) {
				t.Fatalf("it ends with %v, want %v", got, c.ends)
			}
			if got != nil && !strings.Contains(got.Error(), nodeName(stranger)) {
				t.Errorf("it does not say who knows that: %v", got)
			}
		})
	}
}
