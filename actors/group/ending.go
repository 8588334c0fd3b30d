package group

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"parley/client/parley"
)

// FilingsPerDay is how many applications an agent may file at one group on one day (UTC).
// Without a bound an applicant could bother the members again after each withdrawal.
const FilingsPerDay = 5

// endRequest decides whether a request is withdrawn or declined. A request whose seat is on
// offer has been decided. A repeat by a caller whose wish has been granted changes nothing.
func endRequest(d *decision, c EndRequest) error {
	live := d.s.Request(c.Request)
	r := live
	if r == nil {
		r = c.Settled
	}
	var grants []Status
	if r != nil {
		grants = endings(d, r, c)
	}
	switch {
	case len(grants) == 0:
		return unconcerned(d.s, c.By, r != nil)
	case live == nil && r.GetReason() == "" && slices.Contains(grants, r.GetStatus()):
		return nil
	case live == nil || r.Overdue(d.now) || d.s.seating(r):
		return ErrRequestSettled
	case r.nominated() && r.GetStatus() != Pending && grants[0] != TurnedDown:
		return ErrRequestSettled // the members have decided
	}
	d.resolve(r, grants[0], "")
	return nil
}

// endings returns the statuses that a caller may give to a request by ending it. If several
// of the caller's agents may end it, the agent that the request is about comes first.
func endings(d *decision, r *Request, c EndRequest) (grants []Status) {
	concerns := func(agent parley.AgentID, owned bool) bool {
		return c.By.Agent == agent || c.By.Agent.Zero() && owned
	}
	_, notAdmin := d.admin(c.By)
	itself := concerns(r.AgentID(), c.By.Owns(r.owner(), r.AgentID()))
	if itself && r.Nomination() {
		grants = append(grants, TurnedDown)
	}
	if itself && !r.Nomination() || r.Nomination() && concerns(r.Inviter(), c.Inviter) || r.voucher() && notAdmin == nil {
		grants = append(grants, Canceled)
	}
	return grants
}

// unconcerned refuses a caller that may not end a request. It learns only what it may know of
// the group and its requests.
func unconcerned(s *State, by Caller, known bool) error {
	switch has := s.AccessOf(by); {
	case has == Insider && known:
		return ErrNotConcerned
	case has == Stranger:
		return ErrUnknown
	}
	return ErrUnknownRequest
}

// requester returns the member that made a request about another agent, nil if it is no
// member any more.
func requester(d *decision, r *Request) []byte {
	m, member := d.s.Member(r.Inviter())
	left := func(e Event) bool { l, ok := e.(*Left); return ok && l.GetSeat() == m.Seat }
	if !member || slices.ContainsFunc(d.events, left) {
		return nil
	}
	return r.GetInvitedBy()
}

// nominated reports whether members vote, or voted, on an agent that a member proposed.
func (r *Request) nominated() bool { return r.Nomination() && r.GetMark() > 0 }

// voucher reports whether a member invited the agent without a vote.
func (r *Request) voucher() bool { return r.Nomination() && r.GetMark() == 0 }

// filings counts the applications of each agent on the day of the latest one.
type filings struct {
	day int64 // days since 1970
	of  map[parley.AgentID]int
}

// dayOf returns the day of an instant in Unix milliseconds, in days since 1970 (UTC).
func dayOf(ms int64) int64 { return ms / (24 * time.Hour).Milliseconds() }

// check refuses one more application of an agent on a day. If the clock went back, the day is
// the latest one on which an application was filed.
func (f *filings) check(agent parley.AgentID, now time.Time) error {
	if dayOf(now.UnixMilli()) > f.day || f.of[agent] < FilingsPerDay {
		return nil
	}
	midnight := time.UnixMilli((f.day + 1) * (24 * time.Hour).Milliseconds()).UTC()
	return ErrFiledOften.OverQuota("join_requests", FilingsPerDay, f.of[agent], midnight.Format("2006-01-02T15:04:05.000000Z"))
}

// count counts an application. Counts of earlier days are dropped.
func (f *filings) count(r *Request) {
	if on := dayOf(r.GetCreatedMs()); on > f.day || f.of == nil {
		f.day, f.of = max(on, f.day), map[parley.AgentID]int{}
	}
	f.of[r.AgentID()]++
}

func (f *filings) stored() (all []*Filings) {
	for _, agent := range slices.SortedFunc(maps.Keys(f.of), func(a, b parley.AgentID) int { return bytes.Compare(a[:], b[:]) }) {
		all = append(all, &Filings{Agent: agent.Bytes(), Count: int32(f.of[agent])})
	}
	return all
}

func restoredFilings(p *Snapshot) filings {
	f := filings{day: p.GetFilingDay()}
	for _, one := range p.GetFilings() {
		if f.of == nil {
			f.of = map[parley.AgentID]int{}
		}
		f.of[parley.IDFromBytes[parley.AgentID](one.GetAgent())] = int(one.GetCount())
	}
	return f
}
