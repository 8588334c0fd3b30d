package http

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/http/access"
	"parley/http/api"
	"parley/http/connlimit"
	"parley/http/limit"
	"parley/http/rest"
)

const (
	// exportsMax is how many exports run at a time. Each holds a snapshot of the store, and
	// memory.
	exportsMax = 2
	// exportWindow is the time in which an organization may export as often as its quota
	// allows.
	exportWindow = time.Hour
	// exportsElsewhereMax bounds what is known of an organization's exports on other nodes.
	exportsElsewhereMax = 1000
	// exportLife bounds an export: a reader that takes longer is cut off.
	exportLife = time.Hour
	// exportWait is how long a request waits for others to end, exportsWaitingMax how many do.
	exportWait        = 20 * time.Second
	exportsWaitingMax = 64
	// exportRateLeast is how many bytes a second a reader must take while others wait. It is judged
	// over exportJudged, in which the server has waited for it at least half of the time.
	exportRateLeast = 1 << 20
	exportJudged    = 5 * time.Second
	exportLook      = 250 * time.Millisecond
)

var (
	errExportRunning = rest.ErrRateLimited.Saying("An export of the organization is under way.")
	errExportsFull   = parley.ErrOverloaded.Saying("Too many exports are under way.")
	errForeignOrg    = parley.ErrNotOwner.Saying("This is not your organization.")
	errExportHTTP10  = parley.Refuse(parley.Invalid, "invalid_request", "An export needs HTTP/1.1: its record count and digest come as trailers.")
)

// exports counts the exports of organizations. It is in memory only: after a restart an
// organization may export once more within the hour, which does no harm. It is a limit.Counter,
// so that the nodes of a cluster count together.
type exports struct {
	clock parley.Clock
	note  func(key string, n int)
	mu    sync.Mutex
	// open are the exports under way, begun the instants at which those of the last hour
	// began that count.
	open   map[parley.OrgID]*exportStream
	begun  map[parley.OrgID][]time.Time
	closed bool
	// waiting are requests for which there is no place, in the order in which they came.
	waiting []*exportStream
}

func newExports(clock parley.Clock) *exports {
	return &exports{clock: clock, note: func(string, int) {}, open: map[parley.OrgID]*exportStream{}, begun: map[parley.OrgID][]time.Time{}}
}

// take reserves an export, which begins the hour. It waits for a place. quota nil means no limit.
func (x *exports) take(c *rest.Call, st *exportStream, quota *int) error {
	if err := x.enter(c, st, quota); err != nil {
		return err
	}
	select {
	case <-st.place:
		return nil
	default:
	}
	defer c.Park()()
	tick := time.NewTicker(exportLook)
	defer tick.Stop()
	for until := x.clock().Add(exportWait); ; {
		select {
		case <-st.place:
			return nil
		case <-c.Draining():
			if x.leave(st) {
				return errDraining
			}
		case <-tick.C:
		}
		now := x.clock()
		x.judge(now)
		if (now.After(until) || c.Gone()) && x.leave(st) {
			return errExportsFull.With("retry_after", limit.Seconds(exportWait))
		}
	}
}

// leave ends the wait of a request. It reports false if the request has got a place.
func (x *exports) leave(st *exportStream) bool {
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
func (x *exports) judge(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	wanted, slow := len(x.waiting), map[*exportStream]float64{}
	for _, st := range x.open {
		rate, known := st.speed.rate(now)
		switch {
		case st.broken:
			wanted--
		case known && rate < exportRateLeast && st.conn != nil:
			slow[st] = rate
		}
	}
	all := slices.SortedFunc(maps.Keys(slow), func(a, b *exportStream) int { return cmp.Compare(slow[a], slow[b]) })
	for _, st := range all[:max(min(wanted, len(all)), 0)] {
		st.broken = true
		_ = connlimit.Shut(st.conn)
	}
}

// admit begins an export. The caller holds mu.
func (x *exports) admit(st *exportStream, now time.Time) {
	st.began = now
	x.open[st.org], x.begun[st.org] = st, append(x.begun[st.org], now)
	x.note(string(st.org[:]), 1)
	close(st.place)
}

// enter admits an export at once, or lets it wait.
func (x *exports) enter(c *rest.Call, st *exportStream, quota *int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.clock()
	x.forget(now)
	begun := x.begun[st.org]
	if quota != nil {
		if *quota == 0 {
			return parley.ErrQuotaExceeded.OverQuota(access.QuotaExports, 0, len(begun), nil)
		}
		standing := limit.Standing{OK: true, Limit: *quota, Remaining: max(*quota-len(begun)-1, 0), Reset: exportWindow}
		if len(begun) >= *quota {
			standing.OK, standing.RetryAfter = false, begun[len(begun)-*quota].Add(exportWindow).Sub(now)
			standing.Reset = standing.RetryAfter
		}
		if err := c.SetRate(standing); err != nil {
			return err
		}
	}
	switch {
	case x.open[st.org] != nil, slices.ContainsFunc(x.waiting, func(other *exportStream) bool { return other.org == st.org }):
		return errExportRunning.With("retry_after", limit.Seconds(time.Minute))
	case x.closed || len(x.waiting) >= exportsWaitingMax:
		return errExportsFull
	case len(x.open) >= exportsMax:
		x.waiting = append(x.waiting, st)
	default:
		x.admit(st, now)
	}
	return nil
}

// used returns how many exports of an organization count, and when the first no longer does.
func (x *exports) used(org parley.OrgID) (n int, resets *api.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(x.clock())
	begun := x.begun[org]
	if len(begun) > 0 {
		resets = new(api.At(begun[0].Add(exportWindow)))
	}
	return len(begun), resets
}

// Report implements limit.Counter.
func (x *exports) Report(note func(key string, n int)) { x.note = note }

// Spend implements limit.Counter. What another node gives back is the newest one.
func (x *exports) Spend(key string, n int) {
	if len(key) != len(parley.OrgID{}) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(x.clock())
	org := parley.IDFromBytes[parley.OrgID]([]byte(key))
	begun := x.begun[org]
	for range min(n, exportsElsewhereMax-len(begun)) {
		begun = append(begun, x.clock())
	}
	if begun = begun[:max(len(begun)+min(n, 0), 0)]; len(begun) > 0 {
		x.begun[org] = begun
	} else {
		delete(x.begun, org)
	}
}

// forget drops the beginnings that no longer count. The caller holds mu.
func (x *exports) forget(now time.Time) {
	for id, begun := range x.begun {
		for len(begun) > 0 && now.Sub(begun[0]) >= exportWindow {
			begun = begun[1:]
		}
		if x.begun[id] = begun; len(begun) == 0 {
			delete(x.begun, id)
		}
	}
}

// done ends an export. One that does not count gives the organization its hour back.
func (x *exports) done(st *exportStream, counts bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, st.org)
	if len(x.waiting) > 0 && !x.closed {
		next := x.waiting[0]
		x.waiting = x.waiting[1:]
		x.admit(next, x.clock())
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
func (x *exports) attach(st *exportStream, conn net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	st.conn = conn
	return !st.broken
}

// breakOff ends exports at once: that of an organization, or all if id is zero.
func (x *exports) breakOff(id parley.OrgID) {
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
func (x *exports) isBroken(st *exportStream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return st.broken
}
