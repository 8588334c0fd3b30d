// Package directory serves the directory of agents and groups: searches, profiles, and pages for
// people.
package directory

import (
	"context"
	"errors"
	"log/slog"
	"runtime"

	"parley/actors"
	index "parley/actors/directory"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/web"
)

// Index finds agents and groups. What it finds may be out of date, so nothing of it is
// shown but the order.
type Index interface {
	// Agents finds a page of cards.
	Agents(q index.Query) (*index.Result, error)
	// Meaning returns the vector of a text and the least cosine of what it finds. It may
	// ask another service, and fails if that does.
	Meaning(ctx context.Context, text string) (vector []float32, threshold float32, err error)
	// Groups finds a page of public groups. Text, First, Limit and Position of the query count.
	Groups(q index.Query) (*index.Result, error)
	// Categories returns the categories of all cards, the most frequent first, then by
	// name.
	Categories() ([]index.Count, error)
	// Version is another number once what Agents and Categories search has changed.
	Version() uint64
}

// Options are what the directory needs of the service.
type Options struct {
	Node    *actors.Node
	Agents  *access.Agents
	Groups  *access.Groups
	Index   Index
	Lists   *rest.Lists
	Cursors *rest.Cursors
	Clock   parley.Clock
	Budget  *limit.Budget
	Logger  *slog.Logger
	// Site is what pages say of the service.
	Site web.Site
}

// Directory is what searches, profiles and pages share.
type Directory struct {
	Options
	queries  *limit.Slots
	meanings *limit.Slots // of searches that wait for a vector
	kept     *keptPages
	// queriesLinger is set by tests only: a search keeps its place while it waits for the
	// disk.
	queriesLinger bool
}

// Agents has the requests for cards of agents, Groups those for public groups, Pages those for pages
// for people.
type (
	Agents struct{ *Directory }
	Groups struct{ *Directory }
	Pages  struct{ *Directory }
)

// New returns the directory of a node.
func New(o Options) *Directory {
	s := &Directory{Options: o, queries: limit.NewSlots(max(1, runtime.GOMAXPROCS(0)/2)), meanings: limit.NewSlots(meaningsMax)}
	s.kept = newKeptPages(func() pageVersion { return pageVersion{s.Node.Agents.Changes(), s.Index.Version()} })
	return s
}

// Forget drops what was rendered: an organization was erased, and it may be of that one.
func (s *Directory) Forget() { s.kept.pages.InvalidateAll() }

// named returns the agent, or the group, that a text names if it is a whole handle, else the zero
// id. Whether it is in the directory, the index knows.
func (s *Directory) named(c *rest.Call, text string, group bool) (parley.AnyID, error) {
	h, err := parley.ParseHandle(text)
	if err != nil || h.Group && !group {
		return parley.AnyID{}, nil
	}
	h.Group = group
	id, err := s.Groups.Resolve(c, h)
	if errors.Is(err, parley.ErrNotFound) {
		return parley.AnyID{}, nil
	}
	return id, err
}
