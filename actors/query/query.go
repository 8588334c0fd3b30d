// Package query reads what is stored: messages, feeds, conversations, agents,
// organizations, groups and webhooks. It reads rows and caches; no actor takes part.
//
// A query returns only when everything that it read is durable. Records that can change
// are cached. The actor that changes a record publishes it here before its own answer
// is released, so no later query returns the old one.
package query

import (
	"context"

	"parley/actors/org"
	"parley/actors/query/cache"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// Options of Queries. Journal and Clock are required.
type Options struct {
	Journal journal.Journal
	Clock   parley.Clock
	// RecordBytes bounds the cache of message records, in bytes; 0 disables it.
	RecordBytes int64
	// Render returns the content of a message as pages show it, for that cache; nil keeps
	// it as it is stored.
	Render func(*record.Message) []byte
}

// Queries holds one type per resource. Methods may be called from any goroutine. An
// error is a parley.Refusal, which callers may see, or a defect of the server.
type Queries struct {
	Agents   *Agents
	Orgs     *Orgs
	Messages *Messages
	Feeds    *Feeds
	Groups   *Groups
	Webhooks *Webhooks

	reader *reader
}

// The queries, by resource.
type (
	// Agents reads agents.
	Agents struct{ *reader }
	// Orgs reads organizations.
	Orgs struct{ *reader }
	// Messages reads messages and conversations.
	Messages struct{ *reader }
	// Feeds reads and follows the feeds of agents.
	Feeds struct{ *reader }
	// Groups reads groups.
	Groups struct{ *reader }
	// Webhooks reads webhooks and their deliveries.
	Webhooks struct{ *reader }
)

// reader holds what all queries share.
type reader struct {
	journal journal.Journal
	clock   parley.Clock
	lookups *lookups
	records *cache.Records
	counts  *cache.PollIndex
	newest  newestCache
	limits  Limits

	agents *Agents
	groups *Groups
}

// Limits bounds the work of one query. Only tests change it.
type Limits struct {
	// TransferredStep is how many entries of a feed a query must have read beyond the
	// position up to which everything is transferred before it stores a new one.
	TransferredStep int
	// ListedStep is how many entries of a feed have to lie beyond the position up to
	// which they are in the agent's list before a listing writes rows for them, and
	// ListedMax for how many one listing does.
	ListedStep, ListedMax int
	// ListRows is how many entries of a feed one page of conversations reads.
	ListRows int
	// TaskedStep is how many places of an agent's list of conversations a list of its tasks
	// must have read before it writes rows for them, and TaskedMax after how many it gives
	// up until the next attempt.
	TaskedStep, TaskedMax int
	// WaitRows is how many feed entries one search for messages reads, and how many
	// more it reads to count unread messages.
	WaitRows int
	// CorrespondentRows is how many rows of a conversation Groups.Correspondents reads.
	CorrespondentRows int
	// ForgetRosters disables the roster cache: each query reads every agent that the
	// organization ever had.
	ForgetRosters bool
	// CountEntries is how many feed entries one block of the poll index covers.
	CountEntries int
}

// New makes queries.
func New(o Options) *Queries {
	r := &reader{
		journal: o.Journal, clock: o.Clock, lookups: newLookups(o.Journal.Reader), records: cache.NewRecords(o.RecordBytes, o.Render), newest: newNewestCache(),
		limits: Limits{TransferredStep: 256, ListedStep: 256, ListedMax: 4096, ListRows: scanMax, TaskedStep: 256, TaskedMax: 1 << 17, WaitRows: 4096, CorrespondentRows: 8192, CountEntries: 128},
	}
	r.counts, r.agents, r.groups = cache.NewPollIndex(&r.limits.CountEntries), &Agents{r}, &Groups{r}
	o.Journal.Observe(journal.Observer{
		Streams: []journal.StreamKind{journal.AgentStream, journal.OrgStream}, Tables: []journal.Table{journal.CardTable},
		Changed: r.lookups.changed, Replaced: r.forget,
		Dropped: r.counts.Forget,
	})
	return &Queries{
		Agents: r.agents, Orgs: &Orgs{r}, Messages: &Messages{r}, Feeds: &Feeds{r}, Groups: r.groups, Webhooks: &Webhooks{r},
		reader: r,
	}
}

// Limits returns the limits, for tests. They may be changed before the first query.
func (q *Queries) Limits() *Limits { return &q.reader.limits }

// Forget empties the caches of states, names and records, so that later queries read what
// is stored.
func (q *Queries) Forget() { q.reader.forget() }

func (q *reader) forget() {
	l := q.lookups
	l.agents.forgetAll()
	l.orgs.forgetAll()
	l.firsts.InvalidateAll()
	l.oldest.InvalidateAll()
	l.rosters.InvalidateAll()
	l.names.InvalidateAll()
	l.groups.InvalidateAll()
	q.counts.ForgetAll()
	q.records.Forget()
	q.newest.feeds.InvalidateAll()
	l.changes.Add(1)
}

// ForgetErased drops what is cached of an organization whose key was destroyed, of its
// agents and of their names. States that are read meanwhile are not cached.
func (q *Queries) ForgetErased(org parley.OrgID, agents []parley.AgentID) {
	l := q.reader.lookups
	l.orgs.forget(org)
	l.firsts.Invalidate(org)
	l.oldest.Invalidate(org)
	l.rosters.Invalidate(org)
	l.forgetNames(org, agents)
	for _, id := range agents {
		l.agents.forget(id)
		q.reader.counts.Forget(id)
	}
	q.reader.records.Forget()
}

// ForgetAgent drops what is cached of an agent. Only tests need it.
func (q *Queries) ForgetAgent(id parley.AgentID) {
	q.reader.lookups.agents.cache.Invalidate(id)
	q.reader.counts.Forget(id)
	q.reader.newest.feeds.Invalidate(id)
}

// ForgetOrg drops what is cached of an organization. Only tests need it.
func (q *Queries) ForgetOrg(id parley.OrgID) { q.reader.lookups.orgs.cache.Invalidate(id) }

// Cached returns the state of an organization if it is in the cache. It reads no row.
func (q *Orgs) Cached(id parley.OrgID) (*org.State, bool) {
	return q.lookups.orgs.cache.GetIfPresent(id)
}

// view runs a read of any rows and returns when everything that it read is durable.
func (q *reader) view(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, q.journal.View(), read)
}

// row is view for a read of a single row.
func (q *reader) row(ctx context.Context, read func(journal.View) error) error {
	return journal.Durably(ctx, q.journal.Latest(), read)
}
