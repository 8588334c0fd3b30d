package actors

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/actors/host"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// usages grants what organizations may use. The journal stores the counts, which it updates in the
// batch of each entry. usages holds only the sums, read once a day, so that two concurrent turns
// cannot both take the last of something. What organizations without a limit use is counted too,
// because a limit may be set while requests are in flight. What was granted to an entry that then
// fails counts as used until the node's term or the day ends.
type usages struct {
	mu   sync.RWMutex
	used map[parley.OrgID]*usedToday
	// sweepAt is how many sums there are when those that are not needed are dropped next.
	sweepAt int
}

type usedToday struct {
	mu  sync.Mutex
	day uint32
	journal.Usage
	// stored is how much was stored today, in this term.
	stored int64
	// granted are the entries that took slots under a limit and may not be durable yet. A
	// refusal depends on all of them.
	granted []*host.Pending
	// dropped: this sum is no longer in the map.
	dropped bool
}

// sumsLeast is how many sums there are at least before those that are not needed are dropped: those
// of former days, and those of zero, which anyone can have made by what is then refused.
const sumsLeast = 1 << 16

// keyChangesFree is how many changes of keys an organization may always make on a day: anyone who has
// lost a key must be able to replace it.
const keyChangesFree = 20

// want is what an entry uses up.
type want struct {
	journal.Usage
	// limits are those of the organization; nil means no limit.
	messages *int
	limits   *parley.Payer
	// guest is the agent of another organization that is invited.
	guest parley.AgentID
	// always: the entry is counted and never refused.
	always bool
}

// invitationsTo names the sum of the invitations of an organization to one agent. It is no id of an
// organization: those begin with a time, and none with ffff.
func invitationsTo(org parley.OrgID, agent parley.AgentID) (id parley.OrgID) {
	digest := sha256.Sum256(slices.Concat(org[:], agent[:]))
	copy(id[:], digest[:])
	id[0], id[1] = 0xff, 0xff
	return id
}

// exceeded returns the refusal of what an organization wants beyond what it has used; nil if it
// may have that. // spec: Organization quotas
func (w *want) exceeded(used *journal.Usage, now time.Time) error {
	if w.always {
		return nil
	}
	if w.Messages > 0 && over(w.messages, used.Messages+w.Messages) {
		return overDaily(parley.QuotaMessages, *w.messages, used.Messages, now)
	}
	p := w.limits
	switch {
	case p == nil:
	case w.KeyChanges > 0 && used.KeyChanges < keyChangesFree:
	case w.Changes > 0 && over(p.Changes, used.Changes+w.Changes):
		return overDaily(parley.QuotaChanges, *p.Changes, used.Changes, now)
	case w.Invitations > 0 && over(p.Invitations, used.Invitations+w.Invitations):
		return overDaily(parley.QuotaInvitations, *p.Invitations, used.Invitations, now)
	case w.Reports > 0 && over(p.Reports, used.Reports+w.Reports):
		return overDaily(parley.QuotaReports, *p.Reports, used.Reports, now)
	case w.Stored > 0 && over(p.StoredBytes, used.Stored+w.Stored):
		return parley.ErrQuotaExceeded.OverQuota(parley.QuotaStoredBytes, *p.StoredBytes, int(used.Stored), nil)
	}
	return nil
}

// exceededTo is exceeded for the invitations to one agent.
func (w *want) exceededTo(used *journal.Usage, now time.Time) error {
	if p := w.limits; over(p.InvitationsPerAgent, used.Invitations+1) {
		return overDaily(parley.QuotaInvitationsPerAgent, *p.InvitationsPerAgent, used.Invitations, now)
	}
	return nil
}

func over(limit *int, used int64) bool { return limit != nil && used > int64(*limit) }

func overDaily(name string, limit int, used int64, now time.Time) error {
	midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return parley.ErrQuotaExceeded.OverQuota(name, limit, int(used), midnight.Format(instantLayout))
}

// limited reports whether any limit bears on what is wanted.
func (w *want) limited() bool {
	return w.messages != nil || w.limits != nil && (w.limits.StoredBytes != nil || w.limits.Changes != nil || w.limits.Invitations != nil || w.Reports > 0 && w.limits.Reports != nil)
}

// take grants an entry what it wants, and adds the counts to it. Or it returns a refusal, and the
// entries on which that depends. pending is called only if there is a limit. take runs inside the
// turn, after all other rules.
func (q *usages) take(j journal.Reader, e *journal.Entry, org parley.OrgID, w *want, pending func() *host.Pending) (rests []*host.Pending, err error) {
	day := journal.Day(e.At)
	u := q.of(org, day)
	defer u.mu.Unlock()
	// Turns around midnight may run in either order: the day never goes back.
	if day > u.day {
		return nil, q.lacking(j, org, day)
	}
	if !w.guest.Zero() {
		to := q.of(invitationsTo(org, w.guest), day)
		defer to.mu.Unlock()
		if day > to.day {
			return nil, q.lacking(j, invitationsTo(org, w.guest), day)
		}
		if err := w.exceededTo(&to.Usage, e.At); err != nil {
			return slices.Clone(u.granted), err
		}
		defer func() {
			if err == nil {
				to.Invitations++
				e.Counts = appendCounts(e.Counts, invitationsTo(org, w.guest), day, 0, journal.Usage{Invitations: 1})
			}
		}()
	}
	limited := w.limited()
	if limited {
		u.granted = slices.DeleteFunc(u.granted, (*host.Pending).Released)
		if err := w.exceeded(&u.Usage, e.At); err != nil {
			return slices.Clone(u.granted), err
		}
		if pending != nil {
			u.granted = append(u.granted, pending())
		}
	}
	// A row counts so much and no more.
	part := uint16(u.Messages/journal.CountedMax + u.stored/journal.CountedBytesMax)
	u.Usage.Sum(w.Usage)
	u.stored += max(w.Stored, 0)
	e.Counts = appendCounts(e.Counts, org, day, part, w.Usage)
	return nil, nil
}

func appendCounts(to []journal.Count, org parley.OrgID, day uint32, part uint16, n journal.Usage) []journal.Count {
	if n.Messages != 0 || n.Stored != 0 {
		to = append(to, journal.Count{Org: org, Day: day, N: n.Messages, Bytes: n.Stored, Part: part})
	}
	for _, other := range [...]journal.Count{
		{Of: journal.CountedChanges, N: n.Changes},
		{Of: journal.CountedInvitations, N: n.Invitations},
		{Of: journal.CountedKeyChanges, N: n.KeyChanges},
		{Of: journal.CountedReports, N: n.Reports},
	} {
		if other.N != 0 {
			other.Org, other.Day = org, day
			to = append(to, other)
		}
	}
	return to
}

// known returns nil if the day's sum is known. At the first thing that an organization does on a
// day or in a term it returns a host.Lacking, which reads what the journal counted.
func (q *usages) known(j journal.Reader, org parley.OrgID, day uint32) error {
	u := q.of(org, day)
	defer u.mu.Unlock()
	if day > u.day {
		return q.lacking(j, org, day)
	}
	return nil
}

func (q *usages) lacking(j journal.Reader, org parley.OrgID, day uint32) error {
	return &host.Lacking{Gather: func() error { return q.count(j, org, day) }}
}

// count reads what the organization used on a day. No turn of this term has counted anything of that
// day before, so the sum lacks nothing.
func (q *usages) count(j journal.Reader, org parley.OrgID, day uint32) error {
	v := j.View()
	defer v.Close()
	n, err := v.Used(org, day) // without the lock, which turns take
	if err != nil {
		return err
	}
	u := q.of(org, day)
	defer u.mu.Unlock()
	if day > u.day { // no other caller has read it
		if u.day > 0 { // the journal may not have applied what was stored just now
			n.Stored = u.Stored
		}
		u.day, u.Usage, u.stored = day, n, 0
	}
	return nil
}

// of returns the organization's sum, locked.
func (q *usages) of(org parley.OrgID, day uint32) *usedToday {
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

func (q *usages) add(org parley.OrgID, day uint32) *usedToday {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.used) >= max(q.sweepAt, sumsLeast) {
		q.sweep(day)
		q.sweepAt = 2 * len(q.used)
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

// sweep drops the sums of days before day, and those of zero, except those in use. They can be read
// again.
func (q *usages) sweep(day uint32) {
	maps.DeleteFunc(q.used, func(_ parley.OrgID, u *usedToday) bool {
		if !u.mu.TryLock() {
			return false
		}
		defer u.mu.Unlock()
		u.dropped = u.day < day || u.Usage == journal.Usage{} && u.stored == 0
		return u.dropped
	})
}

// release has an organization no longer pay for bytes. Its limits do not matter.
func (q *usages) release(e *journal.Entry, org parley.OrgID, bytes int64) {
	day := journal.Day(e.At)
	u := q.of(org, day)
	defer u.mu.Unlock()
	if u.day > 0 { // else it is read with what the entry changes
		u.Stored += bytes
	}
	e.Counts = appendCounts(e.Counts, org, day, 0, journal.Usage{Stored: bytes})
}

// requireSum ends a turn that lacks the sum of a sender's day. It comes first in the turn, so that
// the one after it draws the same random numbers.
func requireSum[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, org parley.OrgID) error {
	q, err := c.usagesFor(t.Entry)
	if err != nil {
		return err
	}
	return q.known(t.Reader(), org, journal.Day(t.Now))
}

// grant counts a message in its sender's day, and what it stores. A refusal waits for the entries
// that it counted.
func grant[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, m *Content, copies int) error {
	q, err := c.usagesFor(t.Entry)
	if err != nil {
		return err
	}
	w := want{Usage: journal.Usage{Messages: 1, Stored: journal.RoundStored(m.Sent + copies*CopyBytes)}, messages: m.DayLimit, limits: t.Payer}
	counted, err := q.take(t.Reader(), t.Entry, m.FromOrg, &w, t.Pending)
	t.DependOn(counted)
	return err
}

// grantBetween is grant for a message from one agent to another, whose pair has a rate.
func grantBetween[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], c *core, m *Content, d direction) error {
	if m.PairRate == 0 {
		return grant(t, c, m, 0)
	}
	of := &c.memory.Load().pairs
	if err := of.take(d, m.PairRate, t.Now); err != nil {
		return err
	}
	err := grant(t, c, m, 0)
	if err != nil {
		of.giveBack(d, m.PairRate)
	}
	return err
}

// CopyBytes is what a copy of a broadcast counts for.
const CopyBytes = 100

// usagesFor returns the sums of the term of an entry.
func (c *core) usagesFor(e *journal.Entry) (*usages, error) {
	m := c.memory.Load()
	if e.Activation < m.after {
		return nil, journal.ErrNotLeader // of a former term: its entry would be rejected too
	}
	return &m.quota, nil
}
