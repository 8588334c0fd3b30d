package query

import (
	"context"
	"errors"

	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// ListedGroup is a group of the public directory, and the slug of its owner.
type ListedGroup struct {
	*record.PublicGroup
	Slug string
}

// Listed returns those of the groups that are in the public directory, in the given order.
func (q *Groups) Listed(ctx context.Context, ids []parley.GroupID) (listed []ListedGroup, err error) {
	owners := slugs{lookups: q.lookups, missed: map[parley.OrgID]string{}}
	err = q.view(ctx, func(v journal.View) error {
		owners.view = v
		for _, id := range ids {
			g, err := owners.listed(id)
			if err != nil && !errors.Is(err, journal.ErrErased) {
				return err
			}
			if g.Slug != "" {
				listed = append(listed, g)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	owners.cacheOrgs(ctx)
	return listed, nil
}

// slugs finds the slugs of organizations within a view. Unlike Orgs.Get it does not
// wait until they are durable: the caller waits for the view.
type slugs struct {
	lookups *lookups
	view    journal.View
	missed  map[parley.OrgID]string // slugs that had to be read
}

// listed returns a group of the directory. Slug is empty if the group is not in it.
func (s *slugs) listed(id parley.GroupID) (ListedGroup, error) {
	value, found, err := s.view.Row(journal.DirectorySlot, journal.PublicTable, id[:])
	if err != nil || !found {
		return ListedGroup{}, err
	}
	g := &record.PublicGroup{}
	if err := g.UnmarshalVT(value); err != nil {
		return ListedGroup{}, err
	}
	slug, err := s.of(g.Owner())
	return ListedGroup{g, slug}, err
}

// of returns a slug, which is empty if the organization does not exist.
func (s *slugs) of(id parley.OrgID) (string, error) {
	if f, ok := s.lookups.orgs.cache.GetIfPresent(id); ok {
		return f.GetSlug(), nil
	}
	if slug, ok := s.missed[id]; ok {
		return slug, nil
	}
	_, stored, err := s.view.State(rules.OrgStream(id))
	if err != nil {
		return "", err
	}
	state := &org.State{}
	if err := encoding.Unmarshal(stored, state); err != nil {
		return "", err
	}
	s.missed[id] = state.GetSlug()
	return state.GetSlug(), nil
}

// cacheOrgs puts the organizations that had to be decoded into the cache.
func (s *slugs) cacheOrgs(ctx context.Context) {
	for id, slug := range s.missed {
		if slug == "" {
			continue
		}
		if _, err := s.lookups.org(ctx, id); err != nil {
			return
		}
	}
}
