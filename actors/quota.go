package actors

import (
	"maps"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/actors/host"
	"parley/actors/rules"
	"parley/journal"
)

// dayQuota grants slots for the messages of a day. The journal stores the count, which it
// updates in the batch of each message. dayQuota holds only the sum, read once a day, so
// that two concurrent turns cannot both take the last slot. Messages of organizations
// without a limit are counted too, because a limit may be set while they are in flight. A
// slot granted to an entry that then fails counts as used until the node's term or the day
// ends.
type dayQuota struct {
	mu   sync.RWMutex
	used map[parley.OrgID]*usedToday
	// swept is the last day on which sums of earlier days were dropped.
	swept uint32
}

type usedToday struct {
	mu  sync.Mutex
	day uint32
	n   int64
	// granted are the entries that took slots under a limit and may not be durable yet. A
	// refusal depends on all of them.
	granted []*host.Pending
	// dropped: this sum is no longer in the map.
	dropped bool
}

// sumsMax is how many organizations have a sum before the sums of those that sent nothing
// today are dropped.
const sumsMax = 1 << 16

// take grants one of today's slots to an entry, or returns a refusal and the entries on
// which it depends. A nil limit grants any number, and entry is then not called. take
// runs inside the turn, after all other rules. // spec: Organization quotas
func (q *dayQuota) take(j journal.Journal, org parley.OrgID, limit *int, now time.Time, entry func() *host.Pending) (rests []*host.Pending, err error) {
	day := journal.Day(now)
	u := q.of(org, day)
	defer u.mu.Unlock()
	// Turns around midnight may run in either order: the day never goes back.
	if day > u.day {
		return nil, q.lacking(j, org, day)
	}
	if limit == nil {
		u.n++
		return nil, nil
	}
	u.granted = slices.DeleteFunc(u.granted, (*host.Pending).Released)
	if u.n >= int64(*limit) {
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		return slices.Clone(u.granted), parley.ErrQuotaExceeded.OverQuota("messages_per_day", *limit, int(u.n),
			midnight.Format(instantLayout))
	}
	u.n++
	u.granted = append(u.granted, entry())
	return nil, nil
}

// known returns nil if the day's sum is known. At an organization's first message of a day or a
// term it returns a host.Lacking, which reads what the journal counted.
func (q *dayQuota) known(j journal.Journal, org parley.OrgID, day uint32) error {
	u := q.of(org, day)
	defer u.mu.Unlock()
	if day > u.day {
		return q.lacking(j, org, day)
	}
	return nil
}

func (q *dayQuota) lacking(j journal.Journal, org parley.OrgID, day uint32) error {
	return &host.Lacking{Gather: func() error { return q.count(j, org, day) }}
}

// count reads what the organization sent on a day. No turn of this term has counted one of that
// day before, so the sum lacks none.
func (q *dayQuota) count(j journal.Journal, org parley.OrgID, day uint32) error {
	v := j.View()
	defer v.Close()
	n, err := v.Used(org, day) // without the lock, which turns take
	if err != nil {
		return err
	}
	u := q.of(org, day)
	defer u.mu.Unlock()
	if day > u.day { // no other caller has read it
		u.day, u.n = day, n
	}
	return nil
}

// of returns the organization's sum, locked.
func (q *dayQuota) of(org parley.OrgID, day uint32) *usedToday {
	for {
		q.mu.RLock()
		u := q.used[org]
		q.mu.RUnlock()
		if u == nil {
			u = q.add(org, day)
		}
		u.mu.Lock()
		if !u.dropped {
			return u
		}
		u.mu.Unlock()
	}
}

func (q *dayQuota) add(org parley.OrgID, day uint32) *usedToday {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.used) >= sumsMax && q.swept < day {
		q.swept = day
		q.sweep(day)
	}
	if q.used == nil {
		q.used = map[parley.OrgID]*usedToday{}
	}
	u := q.used[org]
	if u == nil {
		u = &usedToday{}
		q.used[org] = u
	}
	return u
}

// sweep drops the sums of days before day, except those in use. They can be read again.
func (q *dayQuota) sweep(day uint32) {
	maps.DeleteFunc(q.used, func(_ parley.OrgID, u *usedToday) bool {
		if !u.mu.TryLock() {
			return false
		}
		defer u.mu.Unlock()
		u.dropped = u.day < day
		return u.dropped
	})
}

// requireSum ends a turn that lacks the sum of a sender's day. It comes first in the turn, so that
// the one after it draws the same random numbers.
func requireSum[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, org parley.OrgID) error {
	q, err := quotaOf(t, c)
	if err != nil {
		return err
	}
	return q.known(t.Journal(), org, journal.Day(t.Now))
}

// grant takes a slot of the organization's day for the turn's entry. A refusal waits for
// the entries that it counted.
func grant[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, org parley.OrgID, limit *int) error {
	q, err := quotaOf(t, c)
	if err != nil {
		return err
	}
	counted, err := q.take(t.Journal(), org, limit, t.Now, t.Pending)
	t.DependOn(counted)
	return err
}

// quotaOf returns the sums of the turn's term.
func quotaOf[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core) (*dayQuota, error) {
	m := c.memory.Load()
	if t.Entry.Activation < m.after {
		return nil, journal.ErrNotLeader // of a former term: its entry would be rejected too
	}
	return &m.quota, nil
}
