package group_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/client/parley"
)

type groupRules = actorstest.Rules[*group.State, group.Command, group.Event]

// deciding plants a Decide that is wrong for commands of one type.
func deciding[C group.Command](wrong func(*group.State, C, time.Time) ([]group.Event, error)) func(*groupRules) {
	return func(r *groupRules) {
		r.Decide = func(s *group.State, c group.Command, now time.Time) ([]group.Event, error) {
			if mine, ok := c.(C); ok {
				return wrong(s, mine, now)
			}
			return group.Decide(s, c, now)
		}
	}
}

// seeing plants a Decide that uses an altered state for commands of one type.
func seeing[C group.Command](wrong func(*group.Snapshot, C)) func(*groupRules) {
	return deciding(func(s *group.State, c C, now time.Time) ([]group.Event, error) {
		return group.Decide(reshaped(s, func(p *group.Snapshot) { wrong(p, c) }), c, now)
	})
}

// askingFor plants a Decide that decides an altered command.
func askingFor[C group.Command](wrong func(*group.State, *C)) func(*groupRules) {
	return deciding(func(s *group.State, c C, now time.Time) ([]group.Event, error) {
		wrong(s, &c)
		return group.Decide(s, c, now)
	})
}

// telling plants a Decide whose events are altered.
func telling[C group.Command](wrong func(*group.State, []group.Event) []group.Event) func(*groupRules) {
	return deciding(func(s *group.State, c C, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		return wrong(s, events), err
	})
}

// evolving plants an Evolve that is wrong for events of one type.
func evolving[E group.Event](wrong func(before, after *group.Snapshot, e E)) func(*groupRules) {
	return func(r *groupRules) {
		r.Evolve = func(s *group.State, e group.Event) {
			mine, ok := e.(E)
			if !ok {
				crowding(s, e)
				return
			}
			before := stored(s)
			crowding(s, e)
			*s = *reshaped(s, func(p *group.Snapshot) { wrong(before, p, mine) })
		}
	}
}

// reshaped returns the state that an altered snapshot gives.
func reshaped(s *group.State, change func(*group.Snapshot)) *group.State {
	p, back := stored(s), &group.State{}
	change(p)
	b, err := encoding.Marshal(p)
	if err != nil || encoding.Unmarshal(b, back) != nil {
		panic("a snapshot that cannot be read")
	}
	return back
}

// without drops events of one type.
func without[E group.Event](_ *group.State, events []group.Event) []group.Event {
	return slices.DeleteFunc(events, func(e group.Event) bool { _, ok := e.(E); return ok })
}

func eachRequest(p *group.Snapshot, do func(*group.Request)) {
	for _, r := range p.GetRequests() {
		do(r)
	}
}

// pairs calls do with each request, before and after a turn.
func pairs(before, after *group.Snapshot, do func(was, is *group.Request)) {
	for _, was := range before.GetRequests() {
		eachRequest(after, func(is *group.Request) {
			if string(was.GetId()) == string(is.GetId()) {
				do(was, is)
			}
		})
	}
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, votesGoneWrong)
	trial.Finds(t, enrollmentGoneWrong)
	trial.Finds(t, departuresGoneWrong)
	trial.Finds(t, endsGoneWrong)
	trial.Finds(t, broadcastsGoneWrong)
	trial.Finds(t, handshakesGoneWrong)
}

// TestCensusControl: the census reports what a run did not meet.
func TestCensusControl(t *testing.T) {
	type trialOf = actorstest.Trial[*group.State, group.Command, group.Event, *oracle]
	trial.Misses(t, "never met: Join: by the window", func(x *trialOf) { x.Cases = append(slices.Clone(x.Cases), "Join: by the window") })
	trial.Misses(t, `not among the cases: "Answer: seated"`, func(x *trialOf) {
		x.Cases = slices.DeleteFunc(slices.Clone(x.Cases), func(name string) bool { return name == "Answer: seated" })
	})
	trial.Misses(t, "the trial does not know it", func(x *trialOf) { x.Errors = nil })
}

var votesGoneWrong = map[string]func(*groupRules){
	"half is enough": deciding(func(s *group.State, c group.CastVote, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		r := s.Request(c.Request)
		if len(events) == 1 && c.Approve && r.GetConsented() && r.GetPolicy() == group.Majority && 2*int(r.GetApprovals()+1) == int(r.GetElectorate()) {
			events = append(events, &group.Offered{AtMs: now.UnixMilli(), Offer: &group.Offer{
				Number: s.LastOffer + 1, Agent: r.GetAgent(), Org: r.GetOrg(), Role: group.RoleMember, Request: r.GetId(),
			}})
		}
		return events, err
	}),
	"a denial is not enough for unanimity": seeing(func(p *group.Snapshot, c group.CastVote) {
		eachRequest(p, func(r *group.Request) {
			if !c.Approve {
				r.Policy = group.Majority
			}
		})
	}),
	"newcomers vote": seeing(func(p *group.Snapshot, _ group.CastVote) {
		eachRequest(p, func(r *group.Request) { r.Mark = p.GetLastSeat() })
	}),
	"who came back votes": func(r *groupRules) {
		evolving(func(before, after *group.Snapshot, e *group.Left) {
			at := slices.IndexFunc(before.GetSeats(), func(m *group.Seat) bool { return m.GetNumber() == e.GetSeat() })
			eachRequest(after, func(r *group.Request) {
				if e.GetSeat() <= r.GetMark() { // the reason of a live one is not visible
					r.Reason += nameIn(parley.AgentID(before.GetSeats()[at].GetAgent()))
				}
			})
		})(r)
		seeing(func(p *group.Snapshot, c group.CastVote) {
			eachRequest(p, func(r *group.Request) {
				if name := nameIn(c.By.Agent); name != "" && strings.Contains(r.GetReason(), name) {
					r.Mark = p.GetLastSeat()
				}
			})
		})(r)
	},
	"who joins is an elector": evolving(func(_, after *group.Snapshot, _ *group.Seated) {
		eachRequest(after, func(r *group.Request) { r.Mark, r.Electorate = after.GetLastSeat(), r.Electorate+1 })
	}),
	"votes count when it is late": deciding(func(s *group.State, c group.CastVote, now time.Time) ([]group.Event, error) {
		return group.Decide(s, c, now.Add(-100*time.Hour))
	}),
	"a vote cannot be changed": deciding(func(s *group.State, c group.CastVote, now time.Time) ([]group.Event, error) {
		if s.VoteOf(c.Request, c.By.Agent) != "" {
			return nil, nil
		}
		return group.Decide(s, c, now)
	}),
	"a changed vote counts twice": evolving(func(before, after *group.Snapshot, _ *group.Voted) {
		pairs(before, after, func(was, is *group.Request) {
			is.Approvals, is.Denials = max(was.Approvals, is.Approvals), max(was.Denials, is.Denials)
		})
	}),
	"a policy is for old requests too": evolving(func(_, after *group.Snapshot, _ *group.Changed) {
		eachRequest(after, func(r *group.Request) { r.Policy = after.GetPolicy() })
	}),
	"a duration is for old requests too": evolving(func(_, after *group.Snapshot, e *group.Changed) {
		eachRequest(after, func(r *group.Request) {
			if e.VoteHours != nil {
				r.ExpiresMs = r.CreatedMs + int64(after.GetVoteHours())*3_600_000
			}
		})
	}),
	"the first elector speaks for all": deciding(func(s *group.State, c group.CastVote, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if errors.Is(err, group.ErrAgentRequired) {
			at := slices.IndexFunc(s.Members(), func(m group.Member) bool { return m.Org == c.By.Org })
			c.By.Agent = s.Members()[at].Agent
			return group.Decide(s, c, now)
		}
		return events, err
	}),
	"the bars are met and nothing follows": telling[group.CastVote](without[*group.Offered]),
	"expiry is forgotten":                  telling[group.Expire](without[*group.Resolved]),
	"what is late still holds": deciding(func(s *group.State, c group.Join, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if r := s.RequestOf(c.Agent); r != nil && r.Overdue(now) {
			return group.Decide(s, c, r.RequestID().Time())
		}
		return events, err
	}),
}

var enrollmentGoneWrong = map[string]func(*groupRules){
	"a voucher is ignored": seeing(func(p *group.Snapshot, _ group.Join) {
		p.Requests = slices.DeleteFunc(p.GetRequests(), func(r *group.Request) bool { return r.GetStatus() == group.Invited })
	}),
	"any member vouches": askingFor(func(s *group.State, c *group.Invite) {
		if _, member := s.Member(c.By.Agent); member && s.Policy == group.Closed {
			c.By = caller("ada")
			for _, m := range s.Members() {
				if m.Role == group.Admin {
					c.By.Agent = m.Agent
				}
			}
		}
	}),
	"consent is skipped": telling[group.Invite](func(_ *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if filed, ok := e.(*group.Filed); ok {
				filed.Request.Consented = true
			}
		}
		return events
	}),
	"a nominee needs no vote": seeing(func(p *group.Snapshot, _ group.Join) {
		eachRequest(p, func(r *group.Request) {
			if len(r.GetInvitedBy()) > 0 {
				r.Status = group.Invited
			}
		})
	}),
	"a nomination is no approval":        telling[group.Invite](without[*group.Voted]),
	"a nomination in a closed group":     seeing(func(p *group.Snapshot, _ group.Invite) { p.Policy = group.Majority }),
	"a closed group lets in":             seeing(func(p *group.Snapshot, _ group.Join) { p.Policy = max(p.Policy, group.Majority) }),
	"a full group takes one more":        askingFor(func(_ *group.State, c *group.Join) { c.SeatLimit = oneMore(c.SeatLimit) }),
	"a full group takes who is approved": askingFor(func(_ *group.State, c *group.CastVote) { c.SeatLimit = nil }),
	"a seat that is kept is no seat": seeing(func(p *group.Snapshot, c group.Join) {
		p.Offers = slices.DeleteFunc(p.GetOffers(), func(o *group.Offer) bool { return string(o.GetAgent()) != string(c.Agent.Bytes()) })
	}),
	"invitations last as long as votes": evolving(func(_, after *group.Snapshot, e *group.Filed) {
		eachRequest(after, func(r *group.Request) {
			if r.GetStatus() == group.Invited && string(r.GetId()) == string(e.GetRequest().GetId()) {
				r.ExpiresMs = r.CreatedMs + int64(after.GetVoteHours())*3_600_000
			}
		})
	}),
	"who cannot come loses the invitation": deciding(func(s *group.State, c group.Answer, now time.Time) ([]group.Event, error) {
		if c.Refusal != "" {
			s = reshaped(s, func(p *group.Snapshot) {
				for _, o := range p.GetOffers() {
					o.Asked = false
				}
			})
		}
		return group.Decide(s, c, now)
	}),
	"an ended group seats": seeing(func(p *group.Snapshot, _ group.Answer) { p.DeletedMs = 0 }),
	"confined all the same": askingFor(func(_ *group.State, c *group.Invite) {
		c.Confined = false
	}),
	"a founder is no admin": evolving(func(_, after *group.Snapshot, e *group.Offered) {
		if e.GetOffer().GetNumber() == 1 {
			after.GetOffers()[0].Role = group.RoleMember
		}
	}),
}

func oneMore(limit *int) *int {
	if limit == nil {
		return nil
	}
	n := *limit + 1
	return &n
}

var departuresGoneWrong = map[string]func(*groupRules){
	"the vote of one who left counts": evolving(func(before, after *group.Snapshot, _ *group.Left) {
		pairs(before, after, func(was, is *group.Request) { is.Approvals, is.Denials = was.Approvals, was.Denials })
	}),
	"one who left is still an elector": evolving(func(before, after *group.Snapshot, _ *group.Left) {
		pairs(before, after, func(was, is *group.Request) { is.Electorate = was.Electorate })
	}),
	"a newcomer that leaves lowers the bars": evolving(func(before, after *group.Snapshot, e *group.Left) {
		pairs(before, after, func(was, is *group.Request) {
			if e.GetSeat() > was.GetMark() && is.Electorate > 0 {
				is.Electorate = was.Electorate - 1
			}
		})
	}),
	"the last admin leaves": deciding(func(s *group.State, c group.Remove, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if m, _ := s.Member(c.Agent); errors.Is(err, group.ErrLastAdmin) {
			return []group.Event{&group.Left{Seat: m.Seat, How: group.Departure_left, AtMs: now.UnixMilli()}}, nil
		}
		return events, err
	}),
	"the last admin is demoted": deciding(func(s *group.State, c group.ChangeRole, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if m, _ := s.Member(c.Agent); errors.Is(err, group.ErrLastAdmin) {
			return []group.Event{&group.RoleChanged{Seat: m.Seat, Role: c.Role, AtMs: now.UnixMilli()}}, nil
		}
		return events, err
	}),
	"a departure is not counted anew": telling[group.Remove](func(_ *group.State, events []group.Event) []group.Event { return events[:min(1, len(events))] }),
	"nobody follows the last admin":   telling[group.Forget](without[*group.RoleChanged]),
	"the oldest follows, even of another owner": telling[group.Forget](func(s *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if heir, ok := e.(*group.RoleChanged); ok {
				left, _ := events[slices.IndexFunc(events, func(e group.Event) bool { _, ok := e.(*group.Left); return ok })].(*group.Left)
				heir.Seat = s.Members()[slices.IndexFunc(s.Members(), func(m group.Member) bool { return m.Seat != left.GetSeat() })].Seat
			}
		}
		return events
	}),
	"a revoked agent keeps its request": telling[group.Forget](without[*group.Resolved]),
	"a revoked agent keeps its seat":    telling[group.Forget](without[*group.Left]),
	"requests outlive the group":        telling[group.Delete](without[*group.Resolved]),
	"a group without members goes on":   telling[group.Forget](without[*group.Deleted]),
	"a kick is told as leaving": telling[group.Remove](func(_ *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if left, ok := e.(*group.Left); ok {
				left.How = group.Departure_left
			}
		}
		return events
	}),
	"members kick": askingFor(func(s *group.State, c *group.Remove) {
		if _, member := s.Member(c.By.Agent); member && c.By.Agent != c.Agent {
			c.By = caller("org:a")
		}
	}),
}

// endsGoneWrong plants defects that concern requests that end at an unusual moment:
// late, while a seat is reserved, before they begin, after they have ended.
var endsGoneWrong = map[string]func(*groupRules){
	"one more applies": askingFor(func(_ *group.State, c *group.Join) {
		if c.Queue.Org > 0 {
			c.Queue.Org++
		}
		if c.Queue.Group > 0 {
			c.Queue.Group++
		}
	}),
	"nominations wait in no queue": askingFor(func(_ *group.State, c *group.Invite) { c.Queue.Group = 0 }),
	"nominations count as applications": deciding(func(s *group.State, c group.Join, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		for _, r := range s.Requests() {
			for _, e := range events {
				if _, filed := e.(*group.Filed); filed && c.Queue.Org > 0 && r.Nomination() && r.GetStatus() == group.Pending {
					return nil, group.ErrQueueFull
				}
			}
		}
		return events, err
	}),
	"outsiders hear that nobody is left": askingFor(func(_ *group.State, c *group.CastVote) { c.Former = true }),
	"an isolated group's members write to outsiders": deciding(func(s *group.State, c group.Invite, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		for _, e := range events {
			if filed, ok := e.(*group.Filed); ok {
				filed.Request.Message = c.Message
			}
		}
		return events, err
	}),
	"who leaves keeps the seat taken": askingFor(func(_ *group.State, c *group.Remove) { c.SeatLimit = oneLess(c.SeatLimit) }),
	"open before the founder is in": seeing(func(p *group.Snapshot, _ group.Join) {
		p.LastSeat = max(p.LastSeat, 1)
	}),
	"what is late is canceled by a deletion":   telling[group.Delete](expiredAs(group.Canceled, "group_deleted")),
	"what is late is canceled by a revocation": telling[group.Forget](expiredAs(group.Canceled, group.ReasonRevoked)),
	"late is not settled": deciding(func(s *group.State, c group.CastVote, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if r, m := s.Request(c.Request), membership(s, c.By); errors.Is(err, group.ErrRequestClosed) && r != nil && r.GetMark() < m.Seat {
			err = group.ErrNotInElectorate
		}
		return events, err
	}),
	"bars that fell meanwhile are forgotten": telling[group.Answer](func(_ *group.State, events []group.Event) []group.Event {
		return slices.DeleteFunc(events, func(e group.Event) bool {
			resolved, ok := e.(*group.Resolved)
			return ok && resolved.GetRequest().GetStatus() == group.Denied
		})
	}),
	"a nominator's approval is never judged": telling[group.CastVote](func(_ *group.State, events []group.Event) []group.Event {
		if len(events) > 0 && group.Tag(events[0]) != group.Tag(&group.Voted{}) {
			return nil
		}
		return events
	}),
	"votes on what was carried are counted on": evolving(func(before, after *group.Snapshot, e *group.Left) {
		pairs(before, after, func(_, is *group.Request) {
			if is.GetStatus() == group.Invited && e.GetSeat() <= is.GetMark() && is.GetElectorate() > 0 {
				is.Electorate--
			}
		})
	}),
	"joining an open group is no consent": telling[group.Join](func(_ *group.State, events []group.Event) []group.Event {
		if len(events) > 1 {
			return without[*group.Consented](nil, events)
		}
		return events
	}),
	"strangers hear who is no member": deciding(func(s *group.State, c group.Remove, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if _, member := s.Member(c.Agent); errors.Is(err, group.ErrNotAdmin) && !member {
			err = group.ErrUnknownMember
		}
		return events, err
	}),
	"members do not hear who is none": deciding(func(s *group.State, c group.ChangeRole, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if m := membership(s, c.By); errors.Is(err, group.ErrUnknownMember) && m.Role != group.Admin {
			err = group.ErrNotAdmin
		}
		return events, err
	}),
	"a late timer is refused": deciding(func(s *group.State, c group.Expire, now time.Time) ([]group.Event, error) {
		if s.Deleted() {
			return nil, group.ErrDeleted
		}
		return group.Decide(s, c, now)
	}),
	"why a seat was not taken is forgotten": evolving(func(_, after *group.Snapshot, _ *group.Withdrawn) { after.Declined = nil }),
	"the reason names another seat": evolving(func(_, after *group.Snapshot, _ *group.Withdrawn) {
		after.Declined[len(after.GetDeclined())-1].Offer = after.GetDeclined()[0].GetOffer()
	}),
}

// membership returns the membership of the agent that the caller named.
func membership(s *group.State, by group.Caller) group.Member {
	m, _ := s.Member(by.Agent)
	return m
}

// expiredAs reports an expired request with another status and reason.
func expiredAs(status group.Status, reason string) func(*group.State, []group.Event) []group.Event {
	return func(_ *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if resolved, ok := e.(*group.Resolved); ok && resolved.GetRequest().GetStatus() == group.Expired {
				resolved.Request.Status, resolved.Request.Reason = status, reason
			}
		}
		return events
	}
}

func oneLess(limit *int) *int {
	if limit == nil {
		return nil
	}
	n := *limit - 1
	return &n
}

var broadcastsGoneWrong = map[string]func(*groupRules){
	"each in a conversation of its own":   askingFor(func(_ *group.State, c *group.Send) { c.Over = true }),
	"in a conversation that is over":      askingFor(func(_ *group.State, c *group.Send) { c.Over = false }),
	"in no conversation":                  telling[group.Send](without[*group.Convened]),
	"under a key that is good for a type": askingFor(func(_ *group.State, c *group.Send) { c.Type = priorType(*c) }),
	"under a key that is not looked up":   askingFor(func(_ *group.State, c *group.Send) { c.Prior = nil }),
	"repeated, and yet judged": deciding(func(s *group.State, c group.Send, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if _, member := s.Member(c.From); errors.Is(err, group.ErrRepeated) && !member {
			return nil, group.ErrNotMember
		}
		return events, err
	}),
	"by a stranger": askingFor(func(s *group.State, c *group.Send) {
		if _, member := s.Member(c.From); !member && len(s.Members()) > 0 {
			c.From = s.Members()[0].Agent
		}
	}),
	"to nobody": deciding(func(s *group.State, c group.Send, now time.Time) ([]group.Event, error) {
		events, err := group.Decide(s, c, now)
		if errors.Is(err, group.ErrNoRecipients) {
			err = nil
		}
		return events, err
	}),
	"begun by somebody else": telling[group.Send](func(s *group.State, events []group.Event) []group.Event {
		for _, e := range events {
			if convened, ok := e.(*group.Convened); ok {
				convened.By = s.Members()[len(s.Members())-1].Agent.Bytes()
			}
		}
		return events
	}),
}

func priorType(c group.Send) string {
	if c.Prior == nil {
		return c.Type
	}
	return c.Prior.Type
}
