// Package export writes everything that belongs to an organization, as lines of JSON.
package export

import (
	"cmp"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"parley/actors"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/view"
)

const (
	// runningMax is how many exports run at a time. Each holds a snapshot of the store, and
	// memory.
	runningMax = 2
	// window is the time in which an organization may export as often as its quota
	// allows.
	window = time.Hour
	// elsewhereMax bounds what is known of an organization's exports on other nodes.
	elsewhereMax = 1000
	// life bounds an export: a reader that takes longer is cut off.
	life = time.Hour
	// patience is how long a request waits for others to end, waitingMax how many do.
	patience   = 20 * time.Second
	waitingMax = 64
	// rateLeast is how many bytes a second a reader must take while others wait. It is judged
	// over judgedOver, in which the server has waited for it at least half of the time.
	rateLeast  = 1 << 20
	judgedOver = 5 * time.Second
	lookEvery  = 250 * time.Millisecond
)

var (
	errRunning    = rest.ErrRateLimited.Saying("An export of the organization is under way.")
	errFull       = parley.ErrOverloaded.Saying("Too many exports are under way.")
	errForeignOrg = parley.ErrNotOwner.Saying("This is not your organization.")
	errHTTP10     = parley.Refuse(parley.Invalid, "invalid_request", "An export needs HTTP/1.1: its record count and digest come as trailers.")
)

// Options are what exports need of the service.
type Options struct {
	Node   *actors.Node
	Agents *access.Agents
	Groups *access.Groups
	Quotas access.QuotaProfile
	Show   view.Site
	Clock  parley.Clock
	Budget *limit.Budget
	Logger *slog.Logger
}

// Exports serves and counts the exports of organizations. It counts in memory only: after a restart
// an organization may export once more within the hour, which does no harm. It is a limit.Counter,
// so that the nodes of a cluster count together.
type Exports struct {
	Options
	note func(key string, n int)
	mu   sync.Mutex
	// open are the exports under way, begun the instants at which those of the last hour
	// began that count.
	open   map[parley.OrgID]*stream
	begun  map[parley.OrgID][]time.Time
	closed bool
	// waiting are requests for which there is no place, in the order in which they came.
	waiting []*stream
}

// New returns the exports of a node.
func New(o Options) *Exports {
	return &Exports{Options: o, note: func(string, int) {}, open: map[parley.OrgID]*stream{}, begun: map[parley.OrgID][]time.Time{}}
}

// take reserves an export, which begins the hour. It waits for a place. quota nil means no limit.
func (x *Exports) take(c *rest.Call, st *stream, quota *int) error {
	if err := x.enter(c, st, quota); err != nil {
		return err
	}
	select {
	case <-st.place:
		return nil
	default:
	}
	defer c.Park()()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for until := x.Clock().Add(patience); ; {
		select {
		case <-st.place:
			return nil
		case <-c.Draining():
			if x.leave(st) {
				return rest.ErrDraining
			}
		case <-tick.C:
		}
		now := x.Clock()
		x.judge(now)
		if (now.After(until) || c.Gone()) && x.leave(st) {
			return errFull.With("retry_after", limit.Seconds(patience))
		}
	}
}

// leave ends the wait of a request. It reports false if the request has got a place.
func (x *Exports) leave(st *stream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := slices.Index(x.waiting, st)
	if at < 0 {
		return false
	}
	x.waiting = slices.Delete(x.waiting, at, at+1)
	return true
}

// judge breaks off exports whose readers are slow, the slowest first, one for each that waits.
func (x *Exports) judge(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wanted, slow := len(x.waiting), map[*stream]float64{}
	for _, st := range x.open {
		rate, known := st.speed.rate(now)
		switch {
		case st.broken:
			wanted--
		case known && rate < rateLeast && st.conn != nil:
			slow[st] = rate
		}
	}
	all := slices.SortedFunc(maps.Keys(slow), func(a, b *stream) int { return cmp.Compare(slow[a], slow[b]) })
	for _, st := range all[:max(min(wanted, len(all)), 0)] {
		st.broken = true
		_ = connlimit.Shut(st.conn)
	}
}

// admit begins an export. The caller holds mu.
func (x *Exports) admit(st *stream, now time.Time) {
	st.began = now
	x.open[st.org], x.begun[st.org] = st, append(x.begun[st.org], now)
	x.note(string(st.org[:]), 1)
	close(st.place)
}

// enter admits an export at once, or lets it wait.
func (x *Exports) enter(c *rest.Call, st *stream, quota *int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.Clock()
	x.forget(now)
	begun := x.begun[st.org]
	if quota != nil {
		if *quota == 0 {
			return parley.ErrQuotaExceeded.OverQuota(access.QuotaExports, 0, len(begun), nil)
		}
		standing := limit.Standing{OK: true, Limit: *quota, Remaining: max(*quota-len(begun)-1, 0), Reset: window}
		if len(begun) >= *quota {
			standing.OK, standing.RetryAfter = false, begun[len(begun)-*quota].Add(window).Sub(now)
			standing.Reset = standing.RetryAfter
		}
		if err := c.SetRate(standing); err != nil {
			return err
		}
	}
	switch {
	case x.open[st.org] != nil, slices.ContainsFunc(x.waiting, func(other *stream) bool { return other.org == st.org }):
		return errRunning.With("retry_after", limit.Seconds(time.Minute))
	case x.closed || len(x.waiting) >= waitingMax:
		return errFull
	case len(x.open) >= runningMax:
		x.waiting = append(x.waiting, st)
	default:
		x.admit(st, now)
	}
	return nil
}

// Used returns how many exports of an organization count, and when the first no longer does.
func (x *Exports) Used(org parley.OrgID) (n int, resets *api.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(x.Clock())
	begun := x.begun[org]
	if len(begun) > 0 {
		resets = new(api.At(begun[0].Add(window)))
	}
	return len(begun), resets
}

// Report implements limit.Counter.
func (x *Exports) Report(note func(key string, n int)) { x.note = note }

// Spend implements limit.Counter. What another node gives back is the newest one.
func (x *Exports) Spend(key string, n int) {
	if len(key) != len(parley.OrgID{}) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(x.Clock())
	org := parley.IDFromBytes[parley.OrgID]([]byte(key))
	begun := x.begun[org]
	for range min(n, elsewhereMax-len(begun)) {
		begun = append(begun, x.Clock())
	}
	if begun = begun[:max(len(begun)+min(n, 0), 0)]; len(begun) > 0 {
		x.begun[org] = begun
	} else {
		delete(x.begun, org)
	}
}

// forget drops the beginnings that no longer count. The caller holds mu.
func (x *Exports) forget(now time.Time) {
	for id, begun := range x.begun {
		for len(begun) > 0 && now.Sub(begun[0]) >= window {
			begun = begun[1:]
		}
		if x.begun[id] = begun; len(begun) == 0 {
			delete(x.begun, id)
		}
	}
}

// done ends an export. One that does not count gives the organization its hour back.
func (x *Exports) done(st *stream, counts bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, st.org)
	if len(x.waiting) > 0 && !x.closed {
		next := x.waiting[0]
		x.waiting = x.waiting[1:]
		x.admit(next, x.Clock())
	}
	if counts {
		return
	}
	begun := x.begun[st.org]
	for i, at := range begun {
		if at.Equal(st.began) {
			x.begun[st.org] = append(begun[:i:i], begun[i+1:]...)
			x.note(string(st.org[:]), -1)
			break
		}
	}
}

// attach gives an export its connection, unless it was broken off.
func (x *Exports) attach(st *stream, conn net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	st.conn = conn
	return !st.broken
}

// BreakOff ends exports at once: that of an organization, or all if id is zero.
func (x *Exports) BreakOff(id parley.OrgID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = x.closed || id.Zero()
	for org, st := range x.open {
		if !id.Zero() && org != id {
			continue
		}
		if st.broken = true; st.conn != nil {
			_ = connlimit.Shut(st.conn)
		}
	}
}

// isBroken reports whether the server broke an export off.
func (x *Exports) isBroken(st *stream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return st.broken
}
