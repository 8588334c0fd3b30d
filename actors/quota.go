package actors

import (
	"slices"
	"sync"
	"time"

	"parley"
)

// ErrQuotaExceeded carries quota, limit, used and resets_at.
var ErrQuotaExceeded = parley.Refuse(parley.Forbidden, "quota_exceeded", "Your organization has used up its quota.")

// dayQuota grants message slots of a day to organizations that have a limit.
// What is used lies in the journal, counted in the batch of each message; here
// is only the sum, read once, so that two turns at once cannot both take the
// last slot. A slot granted to an entry that then fails counts as used until
// the process restarts or the day rolls.
type dayQuota struct {
	mu   sync.Mutex
	used map[parley.OrgID]*usedToday
}

type usedToday struct {
	mu  sync.Mutex
	day uint32
	n   int64
	// granted are the entries that slots were granted to and that may not be
	// durable yet: a refusal rests on all of them.
	granted []*ticket
}

// take grants one slot of today to an entry, or refuses and gives the entries
// that the refusal rests on. It runs inside the turn, after all other rules, and
// waits for no disk but at an organization's first message of a day.
// // spec: Organization quotas
func (q *dayQuota) take(j Journal, org parley.OrgID, limit int, now time.Time, entry *ticket) (rests []*ticket, err error) {
	u := q.of(org)
	u.mu.Lock()
	defer u.mu.Unlock()
	// Turns around midnight may come in either order: the day never goes back.
	if day := parley.Day(now); day > u.day {
		v := j.View()
		defer v.Close()
		n, err := v.Used(org, day)
		if err != nil {
			return nil, err
		}
		u.day, u.n = day, n
	}
	u.granted = slices.DeleteFunc(u.granted, (*ticket).released)
	if u.n >= int64(limit) {
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		return slices.Clone(u.granted), ErrQuotaExceeded.With("quota", "messages_per_day").With("limit", limit).
			With("used", u.n).With("resets_at", midnight.Format("2006-01-02T15:04:05.000000Z"))
	}
	u.n++
	u.granted = append(u.granted, entry)
	return nil, nil
}

func (q *dayQuota) of(org parley.OrgID) *usedToday {
	q.mu.Lock()
	defer q.mu.Unlock()
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
