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

const (
	groupShape     = "id:uuid name:str handle:str description:str? enrollment_policy:str visibility:str isolated:bool vote_duration_hours:int member_count:int member_agent_ids:arr conversation_id:uuid? created_at:time mls_enabled:bool mls_pending:bool mls_group_id:str? mls_cipher_suite:int?"
	profileFields  = "id name handle org_id description enrollment_policy vote_duration_hours member_count created_at mls_enabled"
	memberShape    = "agent_id:uuid agent_handle:str group_id:uuid id:str is_own_org:bool joined_at:time role:str mls_seated:bool"
	requestShape   = "id:str group_id:uuid group_handle:str group_name:str agent_id:uuid status:str message:str? invited_by:str? created_at:time expires_at:time? resolved_at:time? electorate_size:int? quorum_total_members:int? approvals:int? denials:int? approvals_needed:int? denials_needed:int? you_may_vote:bool you_may_vote_reason:str your_vote:str?"
	invitedShape   = "agent_id:uuid? handle:str? request_id:str? status:any reason:str?"
	broadcastShape = messageShape + " broadcast_id:uuid recipient_count:int"
)

// anyUUID is the form of ids that need not contain a time.
var anyUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// request makes a request as this agent.
func (g *agent) request(method, path string, body any, headers ...string) *answer {
	return g.s.call(g.t, g.token, method, path, body, append([]string{"X-Svc-Agent", g.id}, headers...)...)
}

// list reads all pages of a listing as this agent.
func (g *agent) list(path, query string) []obj {
	g.t.Helper()
	var all []obj
	cursor := ""
	for range 1000 {
		a := g.request("GET", path+query+cursor, nil).want(200)
		all = append(all, a.items()...)
		if a.at("has_more") != true {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(a.str("next_cursor"))
	}
	g.t.Fatalf("%s has no last page", path)
	return nil
}

// group is a group and the agent that founded it.
type group struct {
	t                testing.TB
	by               *agent
	id, name, handle string
}

func (r *group) path(rest string) string { return "/groups/" + r.id + rest }

func groupName() string { return "g-" + randomHex(6) }

// tryCreateGroup requests a new group and checks nothing.
func (g *agent) tryCreateGroup(more obj, headers ...string) *answer {
	return g.request("POST", "/groups", merged(obj{"name": groupName()}, more), headers...)
}

// group founds a group.
func (g *agent) group(more ...obj) *group {
	g.t.Helper()
	return g.founded(g.tryCreateGroup(merged(obj{}, more...)).want(201).shaped(groupShape))
}

func (g *agent) founded(a *answer) *group {
	g.t.Helper()
	return &group{t: g.t, by: g, id: a.str("id"), name: a.str("name"), handle: a.str("handle")}
}

// groupWithPolicy founds a group with a policy, seats others in it whatever the policy, and
// promotes those that should be admins.
func (g *agent) groupWithPolicy(policy string, others ...*agent) *group {
	g.t.Helper()
	r := g.group(obj{"enrollment_policy": "open", "visibility": "private"})
	for _, other := range others {
		r.joined(other)
	}
	r.patch(obj{"enrollment_policy": policy}).want(200)
	return r
}

// seats adds agents as members whatever the group's policy.
func (r *group) seats(agents ...*agent) {
	r.t.Helper()
	policy := r.read(r.by).str("enrollment_policy")
	r.patch(obj{"enrollment_policy": "open"}).want(200)
	for _, g := range agents {
		r.joined(g)
	}
	r.patch(obj{"enrollment_policy": policy}).want(200)
}

func (r *group) patch(more obj) *answer { return r.by.request("PATCH", r.path(""), more) }

// read returns GroupRead as an agent sees it.
func (r *group) read(g *agent) *answer {
	r.t.Helper()
	return g.request("GET", r.path(""), nil).want(200).shaped(groupShape)
}

// join requests a seat and checks nothing.
func (r *group) join(g *agent, more ...obj) *answer {
	return g.request("POST", r.path("/join"), merged(obj{}, more...))
}

// joined takes a seat and returns the member.
func (r *group) joined(g *agent) obj {
	r.t.Helper()
	a := r.join(g).want(200).is("status", "joined", "member.agent_id", g.id, "member.group_id", r.id, "member.agent_handle", g.handle)
	member, _ := a.at("member").(obj)
	shaped(r.t, "member", member, memberShape)
	return member
}

// applied files a join request and returns it.
func (r *group) applied(g *agent, more ...obj) obj {
	r.t.Helper()
	a := r.join(g, more...).want(200).is("status", "pending", "request.agent_id", g.id, "request.status", "pending", "request.group_id", r.id)
	request, _ := a.at("request").(obj)
	shaped(r.t, "request", request, requestShape)
	return request
}

// invite invites an agent and checks nothing.
func (r *group) invite(by, whom *agent, more ...obj) *answer {
	return by.request("POST", r.path("/invite"), merged(obj{"agent_id": whom.id}, more...))
}

// invited invites an agent and returns the id of the request.
func (r *group) invited(by, whom *agent, status string) string {
	r.t.Helper()
	a := r.invite(by, whom).want(200).is("status", status)
	exactly(r.t, a.asked, a.body, "request_id status")
	return a.str("request_id")
}

// vote casts a vote and checks nothing.
func (r *group) vote(by *agent, request, vote string) *answer {
	return by.request("POST", r.path("/requests/"+request+"/vote"), obj{"vote": vote})
}

// voted casts a vote, which must count, and returns the status of the request.
func (r *group) voted(by *agent, request, vote string) string {
	r.t.Helper()
	a := r.vote(by, request, vote).want(200).shaped("request_id:str status:str your_vote:str").is("request_id", request, "your_vote", vote)
	if seated, present := a.body["mls_seated"]; present && !ofKind(seated, "bool") {
		a.errorf("mls_seated is %v", seated)
	}
	return a.str("status")
}

// requests returns the join requests as an agent sees them.
func (r *group) requests(g *agent, status string) []obj {
	r.t.Helper()
	rows := g.list(r.path("/requests"), "?status="+status)
	for _, row := range rows {
		shaped(r.t, "request", row, requestShape)
	}
	return rows
}

// request returns one join request as an agent sees it.
func (r *group) request(g *agent, id string) obj {
	r.t.Helper()
	rows := r.requests(g, "all")
	at := slices.IndexFunc(rows, func(row obj) bool { return row["id"] == id })
	if at < 0 {
		r.t.Fatalf("no request %s among %d of group %s", id, len(rows), r.name)
	}
	return rows[at]
}

// checkRequest checks fields of a request, given in pairs.
func (r *group) checkRequest(what string, g *agent, id string, pairs ...any) {
	r.t.Helper()
	row := r.request(g, id)
	for pair := range slices.Chunk(pairs, 2) {
		if got := row[pair[0].(string)]; !same(got, pair[1]) {
			r.t.Errorf("%s: %s of the request is %v, want %v\n  %v", what, pair[0], got, pair[1], row)
		}
	}
	live := row["status"] == "pending" || row["status"] == "invited"
	if (row["resolved_at"] == nil) != live {
		r.t.Errorf("%s: a request that is %v was resolved at %v", what, row["status"], row["resolved_at"])
	}
}

// remove removes a member, as an agent.
func (r *group) remove(by, whom *agent) *answer {
	return by.request("DELETE", r.path("/members/"+whom.id), nil)
}

func (r *group) role(by, whom *agent, role string) *answer {
	return by.request("PATCH", r.path("/members/"+whom.id), obj{"role": role})
}

// checkMembers checks the members of the group in every place that shows them.
func (r *group) checkMembers(what string, agents ...*agent) {
	r.t.Helper()
	var want []string
	for _, g := range agents {
		want = append(want, g.id)
	}
	slices.Sort(want)
	a := r.read(r.by)
	var got []string
	for _, id := range a.at("member_agent_ids").([]any) {
		got = append(got, id.(string))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || !same(a.at("member_count"), len(want)) {
		a.errorf("%s: member_agent_ids and member_count should show %v", what, want)
	}
	got = nil
	for _, m := range r.members(r.by) {
		got = append(got, text(m, "agent_id"))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: the members are %v, want %v", what, got, want)
	}
}

// members returns the rows of the member listing.
func (r *group) members(g *agent) []obj {
	r.t.Helper()
	rows := g.list(r.path("/members"), "?limit=50")
	for _, m := range rows {
		shaped(r.t, "member", m, memberShape)
		if !anyUUID.MatchString(text(m, "id")) || m["group_id"] != r.id || !slices.Contains([]any{"admin", "member"}, m["role"]) {
			r.t.Errorf("a member is %v", m)
		}
	}
	return rows
}

// admins returns the names of the admins, in order.
func (r *group) admins(g *agent) string {
	r.t.Helper()
	var names []string
	for _, m := range r.members(g) {
		if m["role"] == "admin" {
			name, _, _ := strings.Cut(text(m, "agent_handle"), "@")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// tryBroadcast broadcasts and checks nothing.
func (r *group) tryBroadcast(by *agent, more obj, headers ...string) *answer {
	return by.request("POST", "/messages", toHandle(r.handle, obj{"encryption_version": "sender-key-v1"}, more), headers...)
}

// broadcast broadcasts and returns the sender's record.
func (r *group) broadcast(by *agent, more ...obj) obj {
	r.t.Helper()
	a := r.tryBroadcast(by, merged(obj{}, more...)).want(201).shaped(broadcastShape)
	a.is("direction", "sent", "from_agent_id", by.id, "group_id", r.id, "group_handle", r.handle)
	return a.body
}

// newAgents creates n agents of one organization, many at a time.
func (o *org) newAgents(n int, prefix string) []*agent {
	o.t.Helper()
	agents := make([]*agent, n)
	forEachBounded(n, func(i int) {
		name := prefix + randomHex(4)
		a := o.post("/agents", newAgent(name))
		if a.err != nil || a.status != 201 {
			a.errorf("want an agent")
			return
		}
		id, _ := a.at("id").(string)
		handle, _ := a.at("handle").(string)
		agents[i] = &agent{org: o, id: id, name: name, handle: handle}
	})
	if o.t.Failed() {
		o.t.FailNow()
	}
	return agents
}

// joinAll seats agents in an open group, many at a time.
func (r *group) joinAll(agents []*agent) {
	r.t.Helper()
	forEachBounded(len(agents), func(i int) {
		if a := r.join(agents[i]); a.err != nil || a.status != 200 || a.at("status") != "joined" {
			a.errorf("want to be seated")
		}
	})
	if r.t.Failed() {
		r.t.FailNow()
	}
}

// forEachBounded makes n calls from as many goroutines as the machine can run.
func forEachBounded(n int, call func(i int)) {
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
func (a *answer) summary() string {
	if a.err != nil {
		return a.err.Error()
	}
	return strings.ReplaceAll(summaryOf(a.status, a.raw), " ", ":")
}

// matches checks an answer against a cell of a table: a status, and a code if the cell
// names one. "-" is a cell without a request.
func (a *answer) matches(cell string) *answer {
	a.t.Helper()
	if got := a.summary(); got != cell && !strings.HasPrefix(got, cell+":") {
		a.errorf("want %s", cell)
	}
	return a
}

// payloadJSON reads an unencrypted payload.
func payloadJSON(t testing.TB, m obj) (v any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text(m, "encrypted_payload"), "="))
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Errorf("the payload is not base64url of JSON: %v", err)
	}
	return v
}

// sameSet compares lists whose order is unspecified.
func sameSet(got, want []any) bool {
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

// concurrentlyBounded is concurrently for more calls than a server accepts at once.
func concurrentlyBounded[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	forEachBounded(n, func(i int) { out[i] = call(i) })
	return out
}
