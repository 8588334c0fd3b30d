package actors

import (
	"context"
	"errors"
	"iter"

	"parley"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// PublicGroups calls look, once, with the groups that the directory shows and
// whose ids are greater than beyond, oldest first. Each comes with the slug of the
// organization that made it, which is empty if there is no such organization.
//
// When look has returned, PublicGroups waits until everything that look has seen is
// on stable storage. Nothing else in it waits for the disk to sync, so look may
// hold what others are waiting for. If PublicGroups returns an error, what look has
// seen must not be shown.
func (n *Node) PublicGroups(ctx context.Context, beyond parley.GroupID, look func(iter.Seq2[*record.PublicGroup, string])) error {
	owners := slugs{facts: n.facts, missed: map[parley.OrgID]string{}}
	err := n.view(ctx, func(v journal.View) error {
		owners.view = v
		var failed error
		look(func(yield func(*record.PublicGroup, string) bool) {
			scan := v.Rows(journal.DirectorySlot, journal.PublicTable, nil, beyond.Bytes(), false, func(_, value []byte) bool {
				g := &record.PublicGroup{}
				if failed = g.UnmarshalVT(value); failed != nil {
					return false
				}
				var slug string
				slug, failed = owners.of(g.Owner())
				return failed == nil && yield(g, slug)
			})
			failed = errors.Join(failed, scan)
		})
		return failed
	})
	if err == nil {
		owners.keep(ctx, n)
	}
	return err
}

// slugs finds the slugs of organizations within a view. Unlike Node.Org it does not
// wait for the disk to sync: whoever uses it waits for the view.
type slugs struct {
	facts  *facts
	view   journal.View
	missed map[parley.OrgID]string // slugs that had to be read
}

// of is the slug of an organization, empty if there is no such organization.
func (s *slugs) of(id parley.OrgID) (string, error) {
	if f, ok := s.facts.orgs.cache.GetIfPresent(id); ok {
		return f.state.GetSlug(), nil
	}
	if slug, ok := s.missed[id]; ok {
		return slug, nil
	}
	_, stored, err := s.view.State(rules.OrgStream(id))
	if err != nil {
		return "", err
	}
	state := &org.State{}
	if err := state.UnmarshalVT(stored); err != nil {
		return "", err
	}
	s.missed[id] = state.GetSlug()
	return s.missed[id], nil
}

// slugsKept is how many of the organizations that had to be read are put where the
// next look finds them at hand.
const slugsKept = 64

// keep puts some of the organizations that had to be read into the cache.
func (s *slugs) keep(ctx context.Context, n *Node) {
	kept := 0
	for id, slug := range s.missed {
		if slug == "" {
			continue
		}
		if _, err := n.Org(ctx, id); err != nil || kept == slugsKept {
			return
		}
		kept++
	}
}
