package query

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

// GroupOwner is the organization that owns a group.
type GroupOwner struct {
	// Slug is empty if the organization does not exist.
	Slug string
	// Read is set if the organization's state was not cached and had to be decoded,
	// which takes about thirty times as long.
	Read bool
}

// Public calls look once, with the groups in the public directory whose ids are greater
// than beyond, in the order of their ids, each with its owner.
//
// After look returns, Public waits until everything that look has read is durable. It
// waits for the disk nowhere else, so look may hold a lock that other requests wait
// for. If Public returns an error, the groups that look has read must not be shown.
func (q *Groups) Public(ctx context.Context, beyond parley.GroupID, look func(iter.Seq2[*record.PublicGroup, GroupOwner])) error {
	owners := slugs{lookups: q.lookups, missed: map[parley.OrgID]string{}}
	err := q.view(ctx, func(v journal.View) error {
		owners.view = v
		var failed error
		look(func(yield func(*record.PublicGroup, GroupOwner) bool) {
			scan := v.Rows(journal.DirectorySlot, journal.PublicTable, nil, beyond.Bytes(), false, func(_, value []byte) bool {
				g := &record.PublicGroup{}
				if failed = g.UnmarshalVT(value); failed != nil {
					return false
				}
				var owner GroupOwner
				owner, failed = owners.of(g.Owner())
				return failed == nil && yield(g, owner)
			})
			failed = errors.Join(failed, scan)
		})
		return failed
	})
	if err == nil {
		owners.cacheOrgs(ctx)
	}
	return err
}

// slugs finds the slugs of organizations within a view. Unlike Orgs.Get it does not
// wait until they are durable: the caller waits for the view.
type slugs struct {
	lookups *lookups
	view    journal.View
	missed  map[parley.OrgID]string // slugs that had to be read
}

func (s *slugs) of(id parley.OrgID) (GroupOwner, error) {
	if f, ok := s.lookups.orgs.cache.GetIfPresent(id); ok {
		return GroupOwner{Slug: f.state.GetSlug()}, nil
	}
	if slug, ok := s.missed[id]; ok {
		return GroupOwner{Slug: slug}, nil
	}
	_, stored, err := s.view.State(rules.OrgStream(id))
	if err != nil {
		return GroupOwner{}, err
	}
	state := &org.State{}
	if err := state.UnmarshalVT(stored); err != nil {
		return GroupOwner{}, err
	}
	s.missed[id] = state.GetSlug()
	return GroupOwner{Slug: state.GetSlug(), Read: true}, nil
}

// slugsKept is how many of the organizations that had to be decoded are put into the
// cache.
const slugsKept = 64

// cacheOrgs puts some of the organizations that had to be decoded into the cache.
func (s *slugs) cacheOrgs(ctx context.Context) {
	kept := 0
	for id, slug := range s.missed {
		if slug == "" {
			continue
		}
		if _, err := s.lookups.org(ctx, id); err != nil || kept == slugsKept {
			return
		}
		kept++
	}
}
