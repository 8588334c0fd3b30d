package group_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*group.State, group.Command, group.Event]
	turn = actorstest.Turn[*group.State, group.Command, group.Event]
)

var rules = actorstest.Rules[*group.State, group.Command, group.Event]{
	Zero:   func() *group.State { return &group.State{} },
	Decide: group.Decide, Evolve: group.Evolve, Tag: group.Tag, New: group.New,
}

// names lists the agents of the stories. The first letter gives the organization: a for
// acme, g for globex.
var names = []string{"ada", "abe", "amy", "art", "gil", "gus", "gwen", "zoe"}

func agent(name string) parley.AgentID { return actorstest.Named(name) }

func owner(name string) parley.OrgID {
	if name == "" {
		return parley.OrgID{}
	}
	return actorstest.Named("org " + name[:1])
}

// caller returns the caller of a line: an agent, or with `org:a` an organization that
// names no agent.
func caller(text string) group.Caller {
	if letter, alone := strings.CutPrefix(text, "org:"); alone {
		return group.Caller{Org: owner(letter)}
	}
	return group.Caller{Org: owner(text), Agent: agent(text)}
}

func TestStories(t *testing.T) {
	for _, file := range []string{"enrollment", "votes", "seats", "departures", "frozen", "withdrawals", "settings", "broadcasts", "mls"} {
		t.Run(file, func(t *testing.T) { actorstest.Tell(t, "testdata/"+file, rules, parse, show) })
	}
}

func parse(l *actorstest.Line, life *life) group.Command {
	switch l.Verb {
	case "found":
		policy, _ := group.ParsePolicy(l.Text("policy"))
		return group.Found{
			ID: actorstest.Named("club"), Org: owner("ada"), Founder: agent("ada"), Name: "club", Policy: policy,
			Public: l.Has("public"), Isolated: l.Has("isolated"), VoteHours: 72,
		}
	case "join":
		return group.Join{
			RequestID: request(l.Text("agent")), Agent: agent(l.Text("agent")), Org: owner(l.Text("agent")),
			Message: l.Text("saying"), SeatLimit: l.Number("limit"),
		}
	case "invite":
		return group.Invite{
			RequestID: request(l.Text("agent")), By: caller(l.Text("by")), Agent: agent(l.Text("agent")), Org: owner(l.Text("agent")),
			Founding: l.Has("founding"), Known: !l.Has("unknown"), Revoked: l.Has("revoked"), Confined: l.Has("confined"),
			SeatLimit: l.Number("limit"),
		}
	case "vote":
		return group.CastVote{
			Request: request(l.Text("on")), By: caller(l.Text("by")), Approve: !l.Has("no"), Settled: l.Has("settled"),
		}
	case "end":
		return endRequest(l, life)
	case "enter":
		return answer(life, l.Text("agent"), "")
	case "shy":
		return answer(life, l.Text("agent"), l.Text("because"))
	case "remove":
		c := group.Remove{Agent: agent(l.Text("agent")), By: caller(l.Text("by")), SeatLimit: l.Number("limit")}
		if ago := l.Number("committed-hours-ago"); ago != nil {
			c.CommittedMs = life.Now.Add(-time.Duration(*ago) * time.Hour).UnixMilli()
		}
		return c
	case "forget":
		return group.Forget{Agent: agent(l.Text("agent"))}
	case "appoint":
		return group.Appoint{
			Agent: agent(l.Text("agent")), By: caller(l.Text("by")), Org: owner(l.Text("agent")), Known: !l.Has("unknown"),
			Revoked: l.Has("revoked"), Confined: l.Has("confined"), SeatLimit: l.Number("limit"),
		}
	case "role":
		role, _ := group.ParseRole(l.Text("to"))
		return group.ChangeRole{Agent: agent(l.Text("agent")), By: caller(l.Text("by")), Role: role}
	case "expire":
		return group.Expire{}
	case "send":
		c := group.Send{From: agent(l.Text("from")), Type: l.Text("type"), Over: l.Has("over"), Conversation: after(life.State.Conversation)}
		if l.Has("sent-before") {
			c.Prior = &group.Prior{Type: l.Text("sent-before")}
		}
		if epoch := l.Number("epoch"); epoch != nil {
			c.MLS = &group.MLSHeader{Epoch: uint64(*epoch)}
		}
		return c
	case "commit":
		return parseCommit(l, life)
	case "delete":
		return group.Delete{By: caller(l.Text("by"))}
	case "change":
		c := group.Change{
			By: caller(l.Text("by")), Name: l.Optional("name"), Isolated: l.Flag("isolated"), Description: l.Optional("description"),
			Public: l.Flag("public"), VoteHours: l.Number("hours"),
		}
		if word := l.Optional("policy"); word != nil {
			policy, _ := group.ParsePolicy(*word)
			c.Policy = &policy
		}
		return c
	}
	panic("no such verb: " + l.Verb)
}

// parseCommit returns a commit, of the present epoch unless the line says another.
func parseCommit(l *actorstest.Line, life *life) group.Commit {
	c := group.Commit{By: agent(l.Text("by")), Epoch: life.State.Epoch, External: l.Has("external"), Suite: 1, SeatLimit: l.Number("limit")}
	if epoch := l.Number("epoch"); epoch != nil {
		c.Epoch = uint64(*epoch)
	}
	for _, name := range strings.FieldsFunc(l.Text("added"), func(r rune) bool { return r == ',' }) {
		c.Added = append(c.Added, agent(name))
	}
	for _, name := range strings.FieldsFunc(l.Text("removed"), func(r rune) bool { return r == ',' }) {
		c.Removed = append(c.Removed, agent(name))
	}
	if len(c.Added) > 0 && !c.External {
		c.Welcome = []byte("welcome")
	}
	return c
}

// endRequest returns the end of a request with the lookup of how it was settled.
func endRequest(l *actorstest.Line, life *life) group.EndRequest {
	c := group.EndRequest{Request: request(l.Text("on")), By: caller(l.Text("by")), Inviter: l.Has("inviter")}
	for _, e := range life.History {
		if r, ok := e.(*group.Resolved); ok && r.GetRequest().RequestID() == c.Request && life.State.Request(c.Request) == nil {
			c.Settled = r.GetRequest()
		}
	}
	return c
}

// request returns the id of the latest request about an agent.
func request(name string) parley.JoinRequestID { return actorstest.Named("request of " + name) }

// answer returns the agent's acceptance or refusal of the seat reserved for it.
func answer(life *life, name, refusal string) group.Answer {
	a := group.Answer{Refusal: refusal}
	if o := life.State.OfferTo(agent(name)); o != nil {
		a.Offer = o.GetNumber()
	}
	return a
}

// show renders the members, the reserved seats and the state of the votes.
func show(life *life) string {
	s := life.State
	if !s.Exists() {
		return "no group"
	}
	var members, offered, requests []string
	for _, m := range s.Members() {
		members = append(members, nameOf(m.Agent)+map[group.Role]string{group.Admin: "*"}[m.Role]+map[bool]string{true: "+"}[m.Leaf])
	}
	for _, name := range names {
		if s.OfferTo(agent(name)) != nil {
			offered = append(offered, name)
		}
		if r := s.RequestOf(agent(name)); r != nil {
			requests = append(requests, describe(life, name, r))
		}
	}
	out := fmt.Sprintf("members %s", strings.Join(members, " "))
	if len(offered) > 0 {
		out += "; seats kept for " + strings.Join(offered, " ")
	}
	if len(requests) > 0 {
		out += "; " + strings.Join(requests, "; ")
	}
	if _, _, reason, _ := s.Fate(s.LastOffer); reason != "" {
		out += "; the last seat was not taken: " + reason
	}
	if !s.Conversation.Zero() {
		out += "; " + writing(s)
	}
	if s.Epoch > 0 {
		out += fmt.Sprintf("; epoch %d", s.Epoch)
	}
	for _, l := range s.Abandoned() {
		out += ", leaf left by " + nameOf(parley.AgentID(l.GetAgent()))
	}
	if s.Deleted() {
		out += "; deleted"
	}
	if group.Frozen(s) {
		out += "; frozen"
	}
	return out
}

// writing renders who sends to whom, and in which conversation.
func writing(s *group.State) string {
	out := fmt.Sprintf("conversation %d", binary.BigEndian.Uint32(s.Conversation[12:]))
	for _, from := range s.Members() {
		out += ", " + nameOf(from.Agent) + " to"
		for _, to := range s.Recipients(from.Agent) {
			out += fmt.Sprintf(" %s:%d", nameOf(to.Agent), to.Number)
		}
	}
	return out
}

func describe(life *life, name string, r *group.Request) string {
	out := fmt.Sprintf("%s %s", name, r.GetStatus())
	if r.Overdue(life.Now) {
		out += ", overdue"
	}
	if r.GetTotal() > 0 {
		out += fmt.Sprintf(", %d of %d for, %d of %d against, %d electors",
			r.GetApprovals(), r.ApprovalsNeeded(), r.GetDenials(), r.DenialsNeeded(), r.GetElectorate())
	}
	if r.Nomination() && r.GetConsented() {
		out += ", consented"
	}
	var may []string
	for _, voter := range names {
		if ok, _ := life.State.YouMayVote(r, caller(voter), life.Now); ok {
			may = append(may, voter)
		}
	}
	if len(may) > 0 {
		out += ", may vote: " + strings.Join(may, " ")
	}
	return out
}

func nameOf(id parley.AgentID) string {
	for _, name := range names {
		if agent(name) == id {
			return name
		}
	}
	return id.String()
}
