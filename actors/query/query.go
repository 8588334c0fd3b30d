// Package query reads what is stored: messages, feeds, conversations, agents,
// organizations, groups and webhooks. No actor takes part.
//
// A query answers only when everything that it has seen is durable. Records that change
// are cached, and the actor that changes one publishes it here before its own answer is
// released, so that no later query sees the old one.
package query

import (
	"context"

	"parley"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/journal"
)

// Options of Queries. Journal and Clock are required.
type Options struct {
	Journal journal.Journal
	Clock   parley.Clock
	// RecordBytes bounds the cache of message records that pages have shown; 0 keeps
	// none.
	RecordBytes int64
}

// Queries are the queries by what they are about. Their methods may be called from any
// goroutine; errors are parley.Refusals or defects of the server.
type Queries struct {
	Agents   *Agents
	Orgs     *Orgs
	Messages *Messages
	Feeds    *Feeds
	Groups   *Groups
	Webhooks *Webhooks

	reader *reader
}

// What queries are about.
type (
	// Agents are the queries about agents.
	Agents struct{ *reader }
	// Orgs are the queries about organizations.
	Orgs struct{ *reader }
	// Messages are the queries about messages and conversations.
	Messages struct{ *reader }
	// Feeds are the queries that follow the feeds of agents.
	Feeds struct{ *reader }
	// Groups are the queries about groups.
	Groups struct{ *reader }
	// Webhooks are the queries about webhooks and their deliveries.
	Webhooks struct{ *reader }
)

// reader is what all queries share.
type reader struct {
	journal journal.Journal
	clock   parley.Clock
	lookups *lookups
	records *recordCache
	counts  *pollIndex
	limits  Limits

	agents *Agents
	groups *Groups
}

// Limits bound the work of one query. Tests lower them.
type Limits struct {
	// TransferredStep is how far a feed must have grown before the position up to which
	// everything was transferred is stored anew.
	TransferredStep uint64
	// WaitRows is how many entries of a feed one look for messages reads, and how many
	// more it counts unread messages among.
	WaitRows int
	// CorrespondentRows is how many events of a conversation a query for those who share it
	// reads.
	CorrespondentRows int
	// ForgetRosters has each query read all agents that an organization ever had.
	ForgetRosters bool
	// CountEntries is how many entries of a feed one block of the poll index stands for.
	CountEntries int
}

// New makes queries.
func New(o Options) *Queries {
	r := &reader{
		journal: o.Journal, clock: o.Clock, lookups: newLookups(o.Journal), records: newRecordCache(o.RecordBytes),
		limits: Limits{TransferredStep: 4096, WaitRows: 4096, CorrespondentRows: 8192, CountEntries: 128},
	}
	r.counts, r.agents, r.groups = newPollIndex(&r.limits), &Agents{r}, &Groups{r}
	return &Queries{
		Agents: r.agents, Orgs: &Orgs{r}, Messages: &Messages{r}, Feeds: &Feeds{r}, Groups: r.groups, Webhooks: &Webhooks{r},
		reader: r,
	}
}

// Limits are the limits of queries. They may be changed before the first query.
func (q *Queries) Limits() *Limits { return &q.reader.limits }

// Forget empties all caches of records.
func (q *Queries) Forget() {
	l := q.reader.lookups
	l.agents.cache.InvalidateAll()
	l.orgs.cache.InvalidateAll()
	l.firsts.InvalidateAll()
	l.names.InvalidateAll()
	l.groups.InvalidateAll()
}

// ForgetAgent drops what is cached of an agent.
func (q *Queries) ForgetAgent(id parley.AgentID) {
	q.reader.lookups.agents.cache.Invalidate(id)
	q.reader.counts.feeds.Invalidate(id)
}

// ForgetOrg drops what is cached of an organization.
func (q *Queries) ForgetOrg(id parley.OrgID) { q.reader.lookups.orgs.cache.Invalidate(id) }

// Publish makes the durable state of an agent after seq events known.
func (q *Agents) Publish(seq uint64, s *agent.State) {
	q.lookups.agents.publish(s.AgentID(), versioned[*agent.State]{seq, s})
}

// PublishStored is Publish of an encoded state.
func (q *Agents) PublishStored(seq uint64, stored []byte) {
	s := &agent.State{}
	if s.UnmarshalVT(stored) == nil {
		q.Publish(seq, s)
	}
}

// Publish makes the durable state of an organization after seq events known.
func (q *Orgs) Publish(seq uint64, s *org.State) {
	q.lookups.orgs.publish(s.OrgID(), versioned[*org.State]{seq, s})
}

// Cached is the state of an organization if it is in the cache.
func (q *Orgs) Cached(id parley.OrgID) (*org.State, bool) {
	s, found := q.lookups.orgs.cache.GetIfPresent(id)
	return s.state, found
}

// view runs a read and answers only when everything that it saw is durable.
func (r *reader) view(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, r.journal.View(), read)
}

// row is view for a read of one row.
func (r *reader) row(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, r.journal.Latest(), read)
}
