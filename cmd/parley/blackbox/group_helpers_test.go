package blackbox

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The fields of a group, of its members and requests, and of a broadcast.
const (
	groupShape     = "id:uuid name:str handle:str description:str? enrollment_policy:str visibility:str isolated:bool vote_duration_hours:int member_count:int member_agent_ids:arr conversation_id:uuid? created_at:time mls_enabled:bool mls_pending:bool mls_group_id:str? mls_cipher_suite:int?"
	profileFields  = "id name handle org_id description enrollment_policy vote_duration_hours member_count created_at mls_enabled"
	memberShape    = "agent_id:uuid agent_handle:str group_id:uuid id:str is_own_org:bool joined_at:time role:str mls_seated:bool"
	requestShape   = "id:str group_id:uuid group_handle:str group_name:str agent_id:uuid status:str message:str? invited_by:str? created_at:time expires_at:time? resolved_at:time? electorate_size:int? quorum_total_members:int? approvals:int? denials:int? approvals_needed:int? denials_needed:int? you_may_vote:bool you_may_vote_reason:str your_vote:str?"
	invitedShape   = "agent_id:uuid? handle:str? request_id:str? status:any reason:str?"
	broadcastShape = MessageShape + " broadcast_id:uuid recipient_count:int"
)

// AnyUUID is the form of ids that need not contain a time.
var AnyUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Request makes a request as this agent.
func (g *Agent) Request(method, path string, body any, headers ...string) *Answer {
	return g.S.Call(g.T, g.Token, method, path, body, append([]string{"X-Svc-Agent", g.ID}, headers...)...)
}

// List reads all pages of a listing as this agent.
func (g *Agent) List(path, query string) []obj {
	g.T.Helper()
	var all []obj
	cursor := ""
	for range 1000 {
		a := g.Request("GET", path+query+cursor, nil).Want(200)
		all = append(all, a.Items()...)
		if a.At("has_more") != true {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(a.Str("next_cursor"))
	}
	g.T.Fatalf("%s has no last page", path)
	return nil
}

// group is a group and the agent that founded it.
type group struct {
	t                testing.TB
	by               *Agent
	id, name, handle string
}

func (r *group) path(rest string) string { return "/groups/" + r.id + rest }

func groupName() string { return "g-" + RandomHex(6) }

// tryCreateGroup requests a new group and checks nothing.
func (g *Agent) tryCreateGroup(more obj, headers ...string) *Answer {
	return g.Request("POST", "/groups", Merged(obj{"name": groupName()}, more), headers...)
}

// group founds a group.
func (g *Agent) group(more ...obj) *group {
	g.T.Helper()
	return g.founded(g.tryCreateGroup(Merged(obj{}, more...)).Want(201).Shaped(groupShape))
}

func (g *Agent) founded(a *Answer) *group {
	g.T.Helper()
	return &group{t: g.T, by: g, id: a.Str("id"), name: a.Str("name"), handle: a.Str("handle")}
}

// groupWithPolicy founds a group with a policy, seats others in it whatever the policy, and
// promotes those that should be admins.
func (g *Agent) groupWithPolicy(policy string, others ...*Agent) *group {
	g.T.Helper()
	r := g.group(obj{"enrollment_policy": "open", "visibility": "private"})
	for _, other := range others {
		r.joined(other)
	}
	r.patch(obj{"enrollment_policy": policy}).Want(200)
	return r
}

// seats adds agents as members whatever the group's policy.
func (r *group) seats(agents ...*Agent) {
	r.t.Helper()
	policy := r.read(r.by).Str("enrollment_policy")
	r.patch(obj{"enrollment_policy": "open"}).Want(200)
	for _, g := range agents {
		r.joined(g)
	}
	r.patch(obj{"enrollment_policy": policy}).Want(200)
}

func (r *group) patch(more obj) *Answer { return r.by.Request("PATCH", r.path(""), more) }

// read returns GroupRead as an agent sees it.
func (r *group) read(g *Agent) *Answer {
	r.t.Helper()
	return g.Request("GET", r.path(""), nil).Want(200).Shaped(groupShape)
}

// join requests a seat and checks nothing.
func (r *group) join(g *Agent, more ...obj) *Answer {
	return g.Request("POST", r.path("/join"), Merged(obj{}, more...))
}

// joined takes a seat and returns the member.
func (r *group) joined(g *Agent) obj {
	r.t.Helper()
	a := r.join(g).Want(200).Is("status", "joined", "member.agent_id", g.ID, "member.group_id", r.id, "member.agent_handle", g.Handle)
	member, _ := a.At("member").(obj)
	Shaped(r.t, "member", member, memberShape)
	return member
}

// applied files a join request and returns it.
func (r *group) applied(g *Agent, more ...obj) obj {
	r.t.Helper()
	a := r.join(g, more...).Want(200).Is("status", "pending", "request.agent_id", g.ID, "request.status", "pending", "request.group_id", r.id)
	request, _ := a.At("request").(obj)
	Shaped(r.t, "request", request, requestShape)
	return request
}

// invite invites an agent and checks nothing.
func (r *group) invite(by, whom *Agent, more ...obj) *Answer {
	return by.Request("POST", r.path("/invite"), Merged(obj{"agent_id": whom.ID}, more...))
}

// invited invites an agent and returns the id of the request.
func (r *group) invited(by, whom *Agent, status string) string {
	r.t.Helper()
	a := r.invite(by, whom).Want(200).Is("status", status)
	Exactly(r.t, a.Asked, a.Body, "request_id status")
	return a.Str("request_id")
}

// vote casts a vote and checks nothing.
func (r *group) vote(by *Agent, request, vote string) *Answer {
	return by.Request("POST", r.path("/requests/"+request+"/vote"), obj{"vote": vote})
}

// voted casts a vote, which must count, and returns the status of the request.
func (r *group) voted(by *Agent, request, vote string) string {
	r.t.Helper()
	a := r.vote(by, request, vote).Want(200).Shaped("request_id:str status:str your_vote:str").Is("request_id", request, "your_vote", vote)
	if seated, present := a.Body["mls_seated"]; present && !OfKind(seated, "bool") {
		a.Errorf("mls_seated is %v", seated)
	}
	return a.Str("status")
}

// requests returns the join requests as an agent sees them.
func (r *group) requests(g *Agent, status string) []obj {
	r.t.Helper()
	rows := g.List(r.path("/requests"), "?status="+status)
	for _, row := range rows {
		Shaped(r.t, "request", row, requestShape)
	}
	return rows
}

// request returns one join request as an agent sees it.
func (r *group) request(g *Agent, id string) obj {
	r.t.Helper()
	rows := r.requests(g, "all")
	at := slices.IndexFunc(rows, func(row obj) bool { return row["id"] == id })
	if at < 0 {
		r.t.Fatalf("no request %s among %d of group %s", id, len(rows), r.name)
	}
	return rows[at]
}

// checkRequest checks fields of a request, given in pairs.
func (r *group) checkRequest(what string, g *Agent, id string, pairs ...any) {
	r.t.Helper()
	row := r.request(g, id)
	for pair := range slices.Chunk(pairs, 2) {
		if got := row[pair[0].(string)]; !Same(got, pair[1]) {
			r.t.Errorf("%s: %s of the request is %v, want %v\n  %v", what, pair[0], got, pair[1], row)
		}
	}
	live := row["status"] == "pending" || row["status"] == "invited"
	if (row["resolved_at"] == nil) != live {
		r.t.Errorf("%s: a request that is %v was resolved at %v", what, row["status"], row["resolved_at"])
	}
}

// remove removes a member, as an agent.
func (r *group) remove(by, whom *Agent) *Answer {
	return by.Request("DELETE", r.path("/members/"+whom.ID), nil)
}

func (r *group) role(by, whom *Agent, role string) *Answer {
	return by.Request("PATCH", r.path("/members/"+whom.ID), obj{"role": role})
}

// checkMembers checks the members of the group in every place that shows them.
func (r *group) checkMembers(what string, agents ...*Agent) {
	r.t.Helper()
	var want []string
	for _, g := range agents {
		want = append(want, g.ID)
	}
	slices.Sort(want)
	a := r.read(r.by)
	var got []string
	for _, id := range a.At("member_agent_ids").([]any) {
		got = append(got, id.(string))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || !Same(a.At("member_count"), len(want)) {
		a.Errorf("%s: member_agent_ids and member_count should show %v", what, want)
	}
	got = nil
	for _, m := range r.members(r.by) {
		got = append(got, Text(m, "agent_id"))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: the members are %v, want %v", what, got, want)
	}
}

// members returns the rows of the member listing.
func (r *group) members(g *Agent) []obj {
	r.t.Helper()
	rows := g.List(r.path("/members"), "?limit=50")
	for _, m := range rows {
		Shaped(r.t, "member", m, memberShape)
		if !AnyUUID.MatchString(Text(m, "id")) || m["group_id"] != r.id || !slices.Contains([]any{"admin", "member"}, m["role"]) {
			r.t.Errorf("a member is %v", m)
		}
	}
	return rows
}

// admins returns the names of the admins, in order.
func (r *group) admins(g *Agent) string {
	r.t.Helper()
	var names []string
	for _, m := range r.members(g) {
		if m["role"] == "admin" {
			name, _, _ := strings.Cut(Text(m, "agent_handle"), "@")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// tryBroadcast broadcasts and checks nothing.
func (r *group) tryBroadcast(by *Agent, more obj, headers ...string) *Answer {
	return by.Request("POST", "/messages", ToHandle(r.handle, obj{"encryption_version": "sender-key-v1"}, more), headers...)
}

// broadcast broadcasts and returns the sender's record.
func (r *group) broadcast(by *Agent, more ...obj) obj {
	r.t.Helper()
	a := r.tryBroadcast(by, Merged(obj{}, more...)).Want(201).Shaped(broadcastShape)
	a.Is("direction", "sent", "from_agent_id", by.ID, "group_id", r.id, "group_handle", r.handle)
	return a.Body
}

// NewAgents creates n agents of one organization, many at a time.
func (o *Org) NewAgents(n int, prefix string) []*Agent {
	o.T.Helper()
	agents := make([]*Agent, n)
	ForEachBounded(n, func(i int) {
		name := prefix + RandomHex(4)
		a := o.Post("/agents", NewAgent(name))
		if a.Err != nil || a.Status != 201 {
			a.Errorf("want an agent")
			return
		}
		id, _ := a.At("id").(string)
		handle, _ := a.At("handle").(string)
		agents[i] = &Agent{Org: o, ID: id, Name: name, Handle: handle}
	})
	if o.T.Failed() {
		o.T.FailNow()
	}
	return agents
}

// joinAll seats agents in an open group, many at a time.
func (r *group) joinAll(agents []*Agent) {
	r.t.Helper()
	ForEachBounded(len(agents), func(i int) {
		if a := r.join(agents[i]); a.Err != nil || a.Status != 200 || a.At("status") != "joined" {
			a.Errorf("want to be seated")
		}
	})
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// ForEachBounded makes n calls from as many goroutines as the machine can run.
func ForEachBounded(n int, call func(i int)) {
	const workers = 24
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				call(i)
			}
		})
	}
	wg.Wait()
}

// summary returns the status of an answer and its error code, as tables write them.
func (a *Answer) summary() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return strings.ReplaceAll(SummaryOf(a.Status, a.Raw), " ", ":")
}

// matches checks an answer against a cell of a table: a status, and a code if the cell
// names one. "-" is a cell without a request.
func (a *Answer) matches(cell string) *Answer {
	a.T.Helper()
	if got := a.summary(); got != cell && !strings.HasPrefix(got, cell+":") {
		a.Errorf("want %s", cell)
	}
	return a
}

// payloadJSON reads an unencrypted payload.
func payloadJSON(t testing.TB, m obj) (v any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(Text(m, "encrypted_payload"), "="))
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Errorf("the payload is not base64url of JSON: %v", err)
	}
	return v
}

// SameSet compares lists whose order is unspecified.
func SameSet(got, want []any) bool {
	spell := func(all []any) []string {
		out := []string{}
		for _, v := range all {
			out = append(out, fmt.Sprint(v))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(spell(got), spell(want))
}

// ConcurrentlyBounded is concurrently for more calls than a server accepts at once.
func ConcurrentlyBounded[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	ForEachBounded(n, func(i int) { out[i] = call(i) })
	return out
}
