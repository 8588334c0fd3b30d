package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// ballots are sequences of votes. A group of the electors a, b, c, … votes on an
// application: a+ is a's approval, b- is b's denial, c< c leaves, c> c returns, and a
// word is the status that the request must have now. 2/3 1/2 means 2 of the 3 required
// approvals and 1 of the 2 required denials; c! is a vote that must be rejected.
var ballots = []struct{ rule, policy, electors, course string }{
	{"one of one", "majority", "a", "pending 0/1 0/1 a+ approved"},
	{"one of one denies", "majority", "a", "a- denied"},
	{"more than half of two", "majority", "ab", "0/2 0/1 a+ pending 1/2 0/1 b+ approved"},
	{"half of two denies", "majority", "ab", "a+ b- denied"},
	{"more than half of three", "majority", "abc", "0/2 0/2 a+ b- pending 1/2 1/2 c+ approved"},
	{"half of three, rounded up, denies", "majority", "abc", "a- pending 0/2 1/2 b- denied"},
	{"more than half of four", "majority", "abcd", "0/3 0/2 a+ b+ pending 2/3 0/2 c+ approved"},
	{"half of four denies", "majority", "abcd", "a+ b+ c- pending 2/3 1/2 d- denied"},
	{"more than half of five", "majority", "abcde", "0/3 0/3 a- b- c+ d+ pending 2/3 2/3 e+ approved"},
	{"all approve", "unanimity", "abc", "0/3 0/1 a+ b+ pending 2/3 0/1 c+ approved"},
	{"the first denial", "unanimity", "abc", "a+ b+ c- denied"},
	{"one of one, unanimously", "unanimity", "a", "0/1 0/1 a+ approved"},
	{"the last vote counts", "majority", "abc", "a- pending 0/2 1/2 a+ pending 1/2 0/2 b+ approved"},
	{"the same vote twice is one", "majority", "abc", "a+ a+ pending 1/2 0/2 a- a- pending 0/2 1/2"},
	{"a departure lowers the bar of approval", "majority", "abcd", "a+ b+ pending 2/3 0/2 d< approved"},
	{"a departure lowers the bar of denial", "majority", "abcd", "a- pending 0/3 1/2 d< pending 0/2 1/2 c< denied"},
	{"a departure completes unanimity", "unanimity", "abc", "a+ b+ c< approved"},
	{"the vote of one who left does not count", "majority", "abc", "c+ pending 1/2 0/2 c< pending 0/2 0/1 a+ pending 1/2 0/1"},
	{"the denial of one who left does not count", "majority", "abcd", "c- pending 0/3 1/2 c< pending 0/2 0/2 a+ b+ approved"},
	{"to return does not restore a place", "majority", "abc", "c+ c< c> pending 0/2 0/1 c! a+ b+ approved"},
	{"who comes later has no vote", "majority", "ab", "c> pending 0/2 0/1 c! a+ b+ approved"},
}

// TestBallots runs every sequence.
func TestBallots(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		electors := map[byte]*kit.Agent{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			electors[name[0]] = o.Agent(name)
		}
		x := s.Org(t).Agent("applicant")
		for _, b := range ballots {
			var others []*kit.Agent
			for _, name := range []byte(b.electors[1:]) {
				others = append(others, electors[name])
			}
			r := grouptest.NewWithPolicy(electors['a'], b.policy, others...)
			request := r.Applied(x)
			if request["quorum_total_members"] == nil || !kit.Same(request["electorate_size"], len(b.electors)) {
				t.Errorf("%s: the electorate of a new request: %v", b.rule, request)
			}
			playBallot(r, b.rule, b.course, electors, kit.Text(request, "id"))
			if t.Failed() {
				return
			}
		}
	})
}

// playBallot takes the steps of a sequence one after the other.
func playBallot(r *grouptest.Group, rule, course string, electors map[byte]*kit.Agent, id string) {
	r.T.Helper()
	votes := map[string]string{"+": "approve", "-": "deny"}
	steps := strings.Fields(course)
	for i, step := range steps {
		what := rule + ": " + strings.Join(steps[:i+1], " ")
		switch who := electors[step[0]]; {
		case len(step) != 2:
			tallied(r, what, step, steps[:i], id)
		case votes[step[1:]] != "":
			if status := voted(r, who, id, votes[step[1:]]); status == "pending" {
				checkRequest(r, what, who, id, "your_vote", votes[step[1:]])
			}
		case step[1] == '<':
			r.Remove(who, who).As("%s", what).Want(204)
		case step[1] == '>':
			r.Seats(who)
		case step[1] == '!':
			r.Vote(who, id, "approve").As("%s", what).Refused(403, "not_in_electorate")
			checkRequest(r, what, who, id, "you_may_vote", false, "you_may_vote_reason", "not_in_electorate", "your_vote", nil)
		}
	}
}

// tallied checks the status or the counts of a request.
func tallied(r *grouptest.Group, what, want string, before []string, id string) {
	r.T.Helper()
	row := r.Request(r.By, id)
	bar := fmt.Sprintf("%v/%v", row["approvals"], row["approvals_needed"])
	if strings.Contains(want, "/") {
		if len(before) > 0 && strings.Contains(before[len(before)-1], "/") {
			bar = fmt.Sprintf("%v/%v", row["denials"], row["denials_needed"])
		}
		if bar != want {
			r.T.Errorf("%s: the count is %s\n  %v", what, bar, row)
		}
		return
	}
	if row["status"] != want {
		r.T.Errorf("%s: the request is %v\n  %v", what, row["status"], row)
	}
	count := r.Read(r.By).At("member_count").(float64)
	seated := slices.ContainsFunc(r.Members(r.By), func(m obj) bool { return m["agent_id"] == row["agent_id"] })
	if seated != (want == "approved") || want == "denied" && row["resolved_at"] == nil {
		r.T.Errorf("%s: of %v members, one must be the applicant: %v\n  %v", what, count, seated, row)
	}
}

// TestVoteRefusals: which agents cannot vote, and when no agent can.
func TestVoteRefusals(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b, c, late, outside := o.Agent("a"), o.Agent("b"), o.Agent("c"), o.Agent("late"), o.Agent("outside")
		x, stranger := s.Org(t).Agent("x"), s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(a, "majority", b, c)
		id := kit.Text(r.Applied(x), "id")
		r.Seats(late)
		for _, row := range []struct {
			who  string
			by   *kit.Agent
			want string
		}{
			{"a member who came later", late, "403:not_in_electorate"},
			{"an agent of the owner that is no member", outside, "403:not_in_electorate"},
			{"the applicant", x, "403:not_in_electorate"},
			{"a stranger to a private group", stranger, "403:not_in_electorate"},
		} {
			matches(r.Vote(row.by, id, "approve").As("%s", row.who), row.want)
		}
		checkRequest(r, "nothing was counted", a, id, "approvals", 0, "denials", 0, "status", "pending")

		path := r.Path("/requests/" + id + "/vote")
		a.Request("POST", path, obj{"vote": "abstain"}).Invalid("body.vote", "enum")
		a.Request("POST", path, obj{}).Invalid("body.vote", "missing")
		r.Vote(a, kit.Nobody, "approve").As("no such request").Refused(404, "not_found")
		a.Request("POST", "/groups/"+kit.Nobody+"/requests/"+id+"/vote", obj{"vote": "deny"}).As("no such group").Refused(404, "not_found")
		elsewhere := grouptest.NewWithPolicy(a, "majority")
		a.Request("POST", elsewhere.Path("/requests/"+id+"/vote"), obj{"vote": "deny"}).As("a request of another group").Refused(404, "not_found")

		for _, alias := range [][2]string{{"choice", "deny"}, {"decision", "approve"}} {
			a.Request("POST", path, obj{alias[0]: alias[1]}).As("%s", alias[0]).Want(200).Is("your_vote", alias[1], "status", "pending")
		}
		if status := voted(r, b, id, "approve"); status != "approved" {
			t.Fatalf("two of three approve: %s", status)
		}
		r.Vote(a, id, "deny").As("settled").Refused(409, "request_closed")
		checkRequest(r, "settled", a, id, "status", "approved", "approvals", 2, "denials", 0)
	})
}

// TestElectorateEmpty: when no elector is left in the group, the request stays pending
// and cannot be decided.
func TestElectorateEmpty(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		x := s.Org(t).Agent("x")
		r := grouptest.NewWithPolicy(a, "majority")
		id := kit.Text(r.Applied(x), "id")
		r.Seats(b)
		r.Role(a, b, "admin").Want(200)
		r.Remove(a, a).Want(204)
		r.Vote(b, id, "approve").Refused(403, "electorate_empty")
		r.Vote(a, id, "approve").As("who was of the electorate").Refused(403, "electorate_empty")
		a.Org.Post(r.Path("/requests/"+id+"/vote"), obj{"vote": "approve"}).As("who was of it, unnamed").Refused(403, "electorate_empty")
		r.Vote(s.Org(t).Agent("stranger"), id, "approve").As("a stranger").Refused(403, "not_in_electorate")
		checkRequest(r, "nobody left", b, id, "status", "pending", "electorate_size", 0, "approvals", 0, "denials", 0, "you_may_vote", false)
		r.CheckMembers("nobody left", b)
	})
}

// TestWhoVotes: if the request names no agent, the caller's only agent in the electorate
// votes.
func TestWhoVotes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		other.Agent("outside")
		c, late := other.Agent("c"), other.Agent("late")
		x := s.Org(t).Agent("x")
		r := grouptest.NewWithPolicy(a, "unanimity", b, c)
		id := kit.Text(r.Applied(x), "id")
		r.Seats(late)
		path := r.Path("/requests/" + id + "/vote")
		several := o.Post(path, obj{"vote": "approve"}).Refused(400, "agent_required")
		if told, _ := several.At("candidates").([]any); !kit.SameSet(told, []any{a.ID, b.ID}) {
			several.Errorf("candidates should be %s and %s", a.ID, b.ID)
		}
		other.Post(path, obj{"vote": "approve"}).As("the only elector").Want(200).Is("your_vote", "approve", "status", "pending")
		checkRequest(r, "the only elector", c, id, "your_vote", "approve", "approvals", 1)
		o.Post(path, obj{"vote": "approve"}, "X-Svc-Agent", kit.Nobody).Refused(403, "not_owner")
		x.Org.Post(path, obj{"vote": "approve"}).As("of none").Refused(403, "not_in_electorate")
	})
}

// TestYouMayVote: what each caller sees of a request, and why.
func TestYouMayVote(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		a, b, late := o.Agent("a"), o.Agent("b"), o.Agent("late")
		c := other.Agent("c")
		x, y := s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := grouptest.NewWithPolicy(a, "majority", b, c)
		application := kit.Text(r.Applied(x), "id")
		nomination := r.Invited(c, y, "pending")
		r.Seats(late)
		may := func(what string, row obj, reason string) {
			t.Helper()
			if row["you_may_vote"] != (reason == "ok") || row["you_may_vote_reason"] != reason {
				t.Errorf("%s: you_may_vote is %v, %v, want %s", what, row["you_may_vote"], row["you_may_vote_reason"], reason)
			}
		}
		row := func(a *kit.Answer) obj {
			t.Helper()
			for _, row := range a.Want(200).Items() {
				if row["id"] == application {
					return row
				}
			}
			a.Fatalf("no row of the application")
			return nil
		}
		path := r.Path("/requests")
		may("an elector", r.Request(a, application), "ok")
		may("one who nominated", r.Request(c, nomination), "ok")
		may("one who came later", r.Request(late, application), "not_in_electorate")
		may("none named, two electors", row(o.Get(path)), "no_acting_agent")
		may("none named, one elector", row(other.Get(path)), "ok")
		may("the applicant", r.Applied(x), "own_request")
		may("the nominee", kit.Objects(y.Get("/groups/invites").Want(200).List)[0], "own_request")
		voted(r, a, application, "approve")
		may("who has voted may change it", r.Request(a, application), "ok")
		voted(r, b, application, "approve")
		may("settled", r.Request(a, application), "request_closed")
		may("settled, for one who came later", r.Request(late, application), "request_closed")

		closed := grouptest.New(a, obj{"members": []string{x.ID}})
		invitation := kit.Text(closed.Requests(a, "invited")[0], "id")
		may("an invitation", closed.Request(a, invitation), "not_a_vote")
		may("an invitation, to the invitee", kit.Objects(x.Get("/groups/invites").Want(200).List)[0], "not_a_vote")
	})
}

// TestRequestSettings: a request keeps the duration and the policy of the moment it was
// filed. A denied applicant may file again.
func TestRequestSettings(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b, c := o.Agent("a"), o.Agent("b"), o.Agent("c")
		x, y := s.Org(t).Agent("x"), s.Org(t).Agent("y")
		r := grouptest.NewWithPolicy(a, "majority", b, c)
		r.Patch(obj{"vote_duration_hours": 3}).Want(200)
		first := r.Applied(x)
		lasts(t, "three hours", first, 3*time.Hour)
		r.Patch(obj{"vote_duration_hours": 5, "enrollment_policy": "unanimity"}).Want(200)
		checkRequest(r, "filed before", a, kit.Text(first, "id"), "approvals_needed", 2, "denials_needed", 2, "expires_at", first["expires_at"])
		second := r.Applied(y)
		lasts(t, "five hours", second, 5*time.Hour)
		checkRequest(r, "filed after", a, kit.Text(second, "id"), "approvals_needed", 3, "denials_needed", 1)
		if status := voted(r, a, kit.Text(second, "id"), "deny"); status != "denied" {
			t.Errorf("the first denial: %s", status)
		}
		again := r.Applied(y)
		if again["id"] == second["id"] {
			t.Error("a denied applicant cannot file again")
		}
		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		voted(r, a, kit.Text(first, "id"), "approve")
		if status := voted(r, b, kit.Text(first, "id"), "approve"); status != "approved" {
			t.Errorf("a majority request in a group that was closed later: %s", status)
		}
		z := s.Org(t).Agent("z")
		r.Invited(a, z, "invited")
		lasts(t, "an invitation", r.Requests(a, "invited")[0], 7*24*time.Hour)
	})
}

func lasts(t testing.TB, what string, request obj, want time.Duration) {
	t.Helper()
	created, err1 := time.Parse(time.RFC3339, kit.Text(request, "created_at"))
	expires, err2 := time.Parse(time.RFC3339, kit.Text(request, "expires_at"))
	if got := expires.Sub(created); err1 != nil || err2 != nil || got.Round(time.Second) != want {
		t.Errorf("%s: a request expires after %v, want %v", what, got, want)
	}
}

// TestRequestSelector: the filter selects pending votes, unaccepted invitations, both, or
// all.
func TestRequestSelector(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		r := grouptest.NewWithPolicy(a, "majority", b)
		applications := map[string]string{}
		for _, status := range []string{"pending", "approved", "denied"} {
			applications[status] = kit.Text(r.Applied(guests.Agent("x"+kit.RandomHex(3))), "id")
		}
		voted(r, a, applications["denied"], "deny")
		voted(r, a, applications["approved"], "approve")
		voted(r, b, applications["approved"], "approve")
		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		y, z := guests.Agent("y"), guests.Agent("z")
		invitation, accepted := r.Invited(a, y, "invited"), r.Invited(a, z, "invited")
		r.Joined(z)
		for status, want := range map[string][]any{
			"":        {applications["pending"]},
			"pending": {applications["pending"]},
			"invited": {invitation},
			"live":    {applications["pending"], invitation},
			"all":     {applications["pending"], applications["approved"], applications["denied"], invitation, accepted},
		} {
			query := "?limit=2&status=" + status
			if status == "" {
				query = "?limit=2"
			}
			got := []any{}
			for _, row := range b.List(r.Path("/requests"), query) {
				got = append(got, row["id"])
			}
			if !kit.SameSet(got, want) {
				t.Errorf("status=%s: %v, want %v", status, got, want)
			}
		}
		a.Request("GET", r.Path("/requests?status=odd"), nil).Invalid("query.status", "enum")
		a.Request("GET", r.Path("/requests?limit=0"), nil).Invalid("query.limit", "greater_than_equal")
		a.Request("GET", r.Path("/requests?cursor=nonsense"), nil).Refused(400, "invalid_cursor")
	})
}
