package actors

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"parley/actors/group"
	"parley/client/parley"
)

// TestListedGroups: public groups are read in the order asked for, each with its owner's
// slug, even by a node that has not loaded any organization; others are left out.
func TestListedGroups(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		ids := []parley.GroupID{{15: 1}}
		want := []string{}
		var owners []parley.OrgID
		for _, slug := range []string{"acme", "globex"} {
			owner, a := r.agents(slug, 1)
			owners = append(owners, owner)
			for i := range 3 {
				name := fmt.Sprint("team", i)
				made := must(r.node.Groups.Create(context.Background(), NewGroup{Found: group.Found{
					Org: owner, Founder: a[0], Name: name, Policy: group.Open, Public: i > 0, VoteHours: 72,
				}}))(t)
				if ids = append(ids, made.ID); i > 0 {
					want = append(want, name+" of "+slug)
				}
			}
		}
		slices.Reverse(ids)
		slices.Reverse(want)
		for _, restart := range []bool{false, true} {
			if restart {
				r.restart()
			}
			var got []string
			listed, err := r.node.Groups.Listed(context.Background(), ids)
			for _, g := range listed {
				got = append(got, g.GetName()+" of "+g.Slug)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("after a restart (%v): %v, want %v: %v", restart, got, want, err)
			}
			for _, owner := range owners {
				if _, found := r.node.Orgs.Cached(owner); !found {
					t.Errorf("after a restart (%v) an owner is not cached", restart)
				}
			}
		}
	})
}
