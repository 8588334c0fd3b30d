package actors

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/actors/group"
	"parley/actors/query"
	"parley/actors/record"
)

// TestPublicGroups: public groups are listed oldest first, starting from any of them,
// each with its owner's slug, even by a node that has not loaded any organization.
func TestPublicGroups(t *testing.T) {
	eachJournal(t, func(t *testing.T, r *testNode) {
		var ids []parley.GroupID
		var want []string
		var owners []parley.OrgID
		for _, slug := range []string{"acme", "globex"} {
			owner, a := r.agents(slug, 1)
			owners = append(owners, owner)
			for i := range 2 {
				time.Sleep(time.Millisecond) // ids of one millisecond are not in the order of their making
				name := fmt.Sprint("team", i)
				made := must(r.node.Groups.Create(context.Background(), NewGroup{Found: group.Found{
					Org: owner, Founder: a[0], Name: name, Policy: group.Open, Public: true, VoteHours: 72,
				}}))(t)
				ids, want = append(ids, made.ID), append(want, name+" of "+slug)
			}
		}
		for _, restart := range []bool{false, true} {
			read := 0
			if restart {
				r.restart()
			}
			for from := -1; from < len(ids); from++ {
				beyond := parley.GroupID{}
				if from >= 0 {
					beyond = ids[from]
				}
				var got []string
				err := r.node.Groups.Public(context.Background(), beyond, func(all iter.Seq2[*record.PublicGroup, query.GroupOwner]) {
					for g, owner := range all {
						got = append(got, g.GetName()+" of "+owner.Slug)
						if owner.Read {
							read++
						}
					}
				})
				if err != nil || !slices.Equal(got, want[from+1:]) {
					t.Errorf("after %d: %v, %v", from, got, err)
				}
			}
			if restart != (read == 2) || !restart && read != 0 {
				t.Errorf("after a restart (%v) owners were read %d times", restart, read)
			}
			cached := 0
			for _, owner := range owners {
				if _, found := r.node.Orgs.Cached(owner); found {
					cached++
				}
			}
			if cached != 2 {
				t.Errorf("after a restart (%v) %d of 2 owners are cached", restart, cached)
			}
		}
	})
}
