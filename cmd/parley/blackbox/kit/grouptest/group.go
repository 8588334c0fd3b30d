package grouptest

import (
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// The fields of a group, of its members and requests, and of a broadcast.
const (
	Shape          = "id:uuid name:str handle:str description:str? enrollment_policy:str visibility:str isolated:bool vote_duration_hours:int member_count:int member_agent_ids:arr conversation_id:uuid? created_at:time frozen:bool mls_enabled:bool mls_pending:bool mls_group_id:str? mls_cipher_suite:int?"
	MemberShape    = "agent_id:uuid agent_handle:str group_id:uuid id:str is_own_org:bool joined_at:time role:str mls_seated:bool"
	RequestShape   = "id:str group_id:uuid group_handle:str group_name:str agent_id:uuid status:str message:str? invited_by:str? created_at:time expires_at:time? resolved_at:time? electorate_size:int? quorum_total_members:int? approvals:int? denials:int? approvals_needed:int? denials_needed:int? you_may_vote:bool you_may_vote_reason:str your_vote:str?"
	BroadcastShape = kit.MessageShape + " broadcast_id:uuid recipient_count:int"
)

// Group is a group and the agent that founded it.
type Group struct {
	T                testing.TB
	By               *kit.Agent
	ID, Name, Handle string
}

// Path is a path below that of the group.
func (r *Group) Path(rest string) string { return "/groups/" + r.ID + rest }

// NewName returns a name that no other group has.
func NewName() string { return "g-" + kit.RandomHex(6) }

// TryCreate requests a new group and checks nothing.
func TryCreate(g *kit.Agent, more obj, headers ...string) *kit.Answer {
	return g.Request("POST", "/groups", kit.Merged(obj{"name": NewName()}, more), headers...)
}

// New founds a group.
func New(g *kit.Agent, more ...obj) *Group {
	g.T.Helper()
	return Founded(g, TryCreate(g, kit.Merged(obj{}, more...)).Want(201).Shaped(Shape))
}

// Founded returns the group that an answer has.
func Founded(g *kit.Agent, a *kit.Answer) *Group {
	g.T.Helper()
	return &Group{T: g.T, By: g, ID: a.Str("id"), Name: a.Str("name"), Handle: a.Str("handle")}
}

// NewWithPolicy founds a group with a policy, seats others in it whatever the policy, and
// promotes those that should be admins.
func NewWithPolicy(g *kit.Agent, policy string, others ...*kit.Agent) *Group {
	g.T.Helper()
	r := New(g, obj{"enrollment_policy": "open", "visibility": "private"})
	for _, other := range others {
		r.Joined(other)
	}
	r.Patch(obj{"enrollment_policy": policy}).Want(200)
	return r
}

// Seats adds agents as members whatever the group's policy.
func (r *Group) Seats(agents ...*kit.Agent) {
	r.T.Helper()
	policy := r.Read(r.By).Str("enrollment_policy")
	r.Patch(obj{"enrollment_policy": "open"}).Want(200)
	for _, g := range agents {
		r.Joined(g)
	}
	r.Patch(obj{"enrollment_policy": policy}).Want(200)
}

// Patch changes the group as its founder.
func (r *Group) Patch(more obj) *kit.Answer { return r.By.Request("PATCH", r.Path(""), more) }

// Read returns GroupRead as an agent sees it.
func (r *Group) Read(g *kit.Agent) *kit.Answer {
	r.T.Helper()
	return g.Request("GET", r.Path(""), nil).Want(200).Shaped(Shape)
}

// Join requests a seat and checks nothing.
func (r *Group) Join(g *kit.Agent, more ...obj) *kit.Answer {
	return g.Request("POST", r.Path("/join"), kit.Merged(obj{}, more...))
}

// Joined takes a seat and returns the member.
func (r *Group) Joined(g *kit.Agent) obj {
	r.T.Helper()
	a := r.Join(g).Want(200).Is("status", "joined", "member.agent_id", g.ID, "member.group_id", r.ID, "member.agent_handle", g.Handle)
	member, _ := a.At("member").(obj)
	kit.Shaped(r.T, "member", member, MemberShape)
	return member
}

// Applied files a join request and returns it.
func (r *Group) Applied(g *kit.Agent, more ...obj) obj {
	r.T.Helper()
	a := r.Join(g, more...).Want(200).Is("status", "pending", "request.agent_id", g.ID, "request.status", "pending", "request.group_id", r.ID)
	request, _ := a.At("request").(obj)
	kit.Shaped(r.T, "request", request, RequestShape)
	return request
}

// Invite invites an agent and checks nothing.
func (r *Group) Invite(by, whom *kit.Agent, more ...obj) *kit.Answer {
	return by.Request("POST", r.Path("/invite"), kit.Merged(obj{"agent_id": whom.ID}, more...))
}

// Invited invites an agent and returns the id of the request.
func (r *Group) Invited(by, whom *kit.Agent, status string) string {
	r.T.Helper()
	a := r.Invite(by, whom).Want(200).Is("status", status)
	kit.Exactly(r.T, a.Asked, a.Body, "request_id status")
	return a.Str("request_id")
}

// Vote casts a vote and checks nothing.
func (r *Group) Vote(by *kit.Agent, request, vote string) *kit.Answer {
	return by.Request("POST", r.Path("/requests/"+request+"/vote"), obj{"vote": vote})
}

// Requests returns the join requests as an agent sees them.
func (r *Group) Requests(g *kit.Agent, status string) []obj {
	r.T.Helper()
	rows := g.List(r.Path("/requests"), "?status="+status)
	for _, row := range rows {
		kit.Shaped(r.T, "request", row, RequestShape)
	}
	return rows
}

// Request returns one join request as an agent sees it.
func (r *Group) Request(g *kit.Agent, id string) obj {
	r.T.Helper()
	rows := r.Requests(g, "all")
	at := slices.IndexFunc(rows, func(row obj) bool { return row["id"] == id })
	if at < 0 {
		r.T.Fatalf("no request %s among %d of group %s", id, len(rows), r.Name)
	}
	return rows[at]
}

// Remove removes a member, as an agent.
func (r *Group) Remove(by, whom *kit.Agent) *kit.Answer {
	return by.Request("DELETE", r.Path("/members/"+whom.ID), nil)
}

// Role gives a member another role.
func (r *Group) Role(by, whom *kit.Agent, role string) *kit.Answer {
	return by.Request("PATCH", r.Path("/members/"+whom.ID), obj{"role": role})
}

// CheckMembers checks the members of the group in every place that shows them.
func (r *Group) CheckMembers(what string, agents ...*kit.Agent) {
	r.T.Helper()
	var want []string
	for _, g := range agents {
		want = append(want, g.ID)
	}
	slices.Sort(want)
	a := r.Read(r.By)
	var got []string
	for _, id := range a.At("member_agent_ids").([]any) {
		got = append(got, id.(string))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || !kit.Same(a.At("member_count"), len(want)) {
		a.Errorf("%s: member_agent_ids and member_count should show %v", what, want)
	}
	got = nil
	for _, m := range r.Members(r.By) {
		got = append(got, kit.Text(m, "agent_id"))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.T.Errorf("%s: the members are %v, want %v", what, got, want)
	}
}

// Members returns the rows of the member listing.
func (r *Group) Members(g *kit.Agent) []obj {
	r.T.Helper()
	rows := g.List(r.Path("/members"), "?limit=50")
	for _, m := range rows {
		kit.Shaped(r.T, "member", m, MemberShape)
		if !kit.AnyUUID.MatchString(kit.Text(m, "id")) || m["group_id"] != r.ID || !slices.Contains([]any{"admin", "member"}, m["role"]) {
			r.T.Errorf("a member is %v", m)
		}
	}
	return rows
}

// TryBroadcast broadcasts and checks nothing.
func (r *Group) TryBroadcast(by *kit.Agent, more obj, headers ...string) *kit.Answer {
	return by.Request("POST", "/messages", kit.ToHandle(r.Handle, obj{"encryption_version": "sender-key-v1"}, more), headers...)
}

// Broadcast broadcasts and returns the sender's record.
func (r *Group) Broadcast(by *kit.Agent, more ...obj) obj {
	r.T.Helper()
	a := r.TryBroadcast(by, kit.Merged(obj{}, more...)).Want(201).Shaped(BroadcastShape)
	a.Is("direction", "sent", "from_agent_id", by.ID, "group_id", r.ID, "group_handle", r.Handle)
	return a.Body
}

// JoinAll seats agents in an open group, many at a time.
func (r *Group) JoinAll(agents []*kit.Agent) {
	r.T.Helper()
	kit.ForEachBounded(len(agents), func(i int) {
		if a := r.Join(agents[i]); a.Err != nil || a.Status != 200 || a.At("status") != "joined" {
			a.Errorf("want to be seated")
		}
	})
	if r.T.Failed() {
		r.T.FailNow()
	}
}

// CopiesOf returns an agent's copies of broadcasts, oldest first.
func CopiesOf(g *kit.Agent) []obj {
	g.T.Helper()
	var copies []obj
	for _, m := range g.Everything() {
		if m["group_id"] != nil {
			copies = append(copies, m)
		}
	}
	slices.Reverse(copies)
	return copies
}
