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

// dayQuota grants message slots of a day. What is used lies in the journal,
// counted in the batch of each message; here is only the sum, read once a day, so
// that two turns at once cannot both take the last slot. Organizations without a
// limit are counted too: they may get one while their messages are on their way.
// A slot granted to an entry that then fails counts as used until the process
// restarts or the day rolls.
type dayQuota struct {
	mu   sync.RWMutex
	used map[parley.OrgID]*usedToday
	// swept is the day on which sums of earlier days were last forgotten.
	swept uint32
}

type usedToday struct {
	mu  sync.Mutex
	day uint32
	n   int64
	// granted are the entries that slots of a limit were granted to and that may
	// not be durable yet: a refusal rests on all of them.
	granted []*host.Pending
	// dropped says that this sum is no longer the organization's.
	dropped bool
}

// sumsMax is how many organizations are summed up before those that have sent
// nothing today are forgotten.
const sumsMax = 1 << 16

// take grants one slot of today to an entry, or refuses and gives the entries
// that the refusal rests on; limit nil grants any number, and entry is not called
// then. It runs inside the turn, after all other rules, and waits for no disk but
// at an organization's first message of a day. // spec: Organization quotas
func (q *dayQuota) take(j journal.Journal, org parley.OrgID, limit *int, now time.Time, entry func() *host.Pending) (rests []*host.Pending, err error) {
	day := journal.Day(now)
	u := q.of(org, day)
	defer u.mu.Unlock()
	// Turns around midnight may come in either order: the day never goes back.
	if day > u.day {
		v := j.View()
		defer v.Close()
		n, err := v.Used(org, day)
		if err != nil {
			return nil, err
		}
		u.day, u.n = day, n
	}
	if limit == nil {
		u.n++
		return nil, nil
	}
	u.granted = slices.DeleteFunc(u.granted, (*host.Pending).Released)
	if u.n >= int64(*limit) {
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		return slices.Clone(u.granted), parley.ErrQuotaExceeded.OverQuota("messages_per_day", *limit, int(u.n),
			midnight.Format("2006-01-02T15:04:05.000000Z"))
	}
	u.n++
	u.granted = append(u.granted, entry())
	return nil, nil
}

// of is the organization's sum, locked.
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

// sweep forgets sums of days before day. They can be read again. One that is in
// use just now stays.
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

// grant takes a slot of the organization's day for the turn's entry. The answer
// depends on the entries that a refusal counts.
func grant[S rules.State, C any, E rules.Event](t *host.Turn[S, C, E], q *dayQuota, org parley.OrgID, limit *int) error {
	counted, err := q.take(t.Journal(), org, limit, t.Now, t.Pending)
	t.DependOn(counted)
	return err
}
