package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

var circle = parley.GroupID{1, 0x93, 0x2f, 0, 0, 0, 0x70, 4, 0x80, 0, 0, 0, 0, 0, 0, 0xc}

// TestGroupCalls: each call sends the request that the API describes, for the given
// agent.
func TestGroupCalls(t *testing.T) {
	agent, request := parley.AgentID{15: 0xa}, parley.JoinRequestID{15: 0xd}
	group, member := "/groups/"+circle.String(), "/groups/"+circle.String()+"/members/"+agent.String()
	cursor, word, hours, handle := "c", "crates", 5, "bob@acme.localhost"
	calls := map[string]struct {
		call func(context.Context, *Session) error
		want string
	}{
		"create": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Create(ctx, api.CreateGroup{Name: "circle", ActingAgent: "ann", IdempotencyKey: "k", Members: []api.Target{api.TargetNamed(handle)}})
			return err
		}, `POST /groups as ann key k {"name":"circle","members":["bob@acme.localhost"]}`},
		"list": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.List(ctx, api.ListGroups{Scope: "all", Limit: 3, Cursor: &cursor})
			return err
		}, "GET /groups?cursor=c&limit=3&scope=all"},
		"show": {func(ctx context.Context, c *Session) error { _, err := c.Groups.Get(ctx, circle); return err }, "GET " + group},
		"change": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Update(ctx, api.GroupPatch{ID: circle, ActingAgent: "ann", Description: api.Cleared[string](), VoteDurationHours: &hours})
			return err
		}, "PATCH " + group + ` as ann {"description":null,"vote_duration_hours":5}`},
		"delete": {func(ctx context.Context, c *Session) error {
			return c.Groups.Delete(ctx, api.DeleteGroup{ID: circle, ActingAgent: "ann"})
		}, "DELETE " + group + " as ann"},
		"members": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Members(ctx, api.ListMembers{ID: circle, Limit: 7})
			return err
		}, "GET " + group + "/members?limit=7"},
		"role": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.ChangeRole(ctx, api.MemberPatch{ID: circle, AgentID: agent, ActingAgent: "ann", Role: api.RoleAdmin})
			return err
		}, "PATCH " + member + ` as ann {"role":"admin"}`},
		"remove": {func(ctx context.Context, c *Session) error {
			return c.Groups.RemoveMember(ctx, api.RemoveMember{ID: circle, AgentID: agent, ActingAgent: "ann"})
		}, "DELETE " + member + " as ann"},
		"join": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Join(ctx, api.Join{ID: circle, ActingAgent: "bob", Message: &word})
			return err
		}, "POST " + group + `/join as bob {"message":"crates"}`},
		"invite": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Invite(ctx, api.Invite{ID: circle, ActingAgent: "ann", AgentID: &agent})
			return err
		}, "POST " + group + `/invite as ann {"agent_id":"` + agent.String() + `"}`},
		"invite several": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.InviteBatch(ctx, api.Invite{ID: circle, Agents: []api.Target{api.TargetNamed(handle), api.TargetNamed(agent.String())}})
			return err
		}, "POST " + group + `/invite {"agents":["bob@acme.localhost","` + agent.String() + `"]}`},
		"invites": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Invites(ctx, api.ListInvites{ActingAgent: "bob"})
			return err
		}, "GET /groups/invites as bob"},
		"requests": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Requests(ctx, api.ListRequests{ID: circle, ActingAgent: "ann", Status: "all", Limit: 9})
			return err
		}, "GET " + group + "/requests?limit=9&status=all as ann"},
		"vote": {func(ctx context.Context, c *Session) error {
			_, err := c.Groups.Vote(ctx, api.Vote{ID: circle, RequestID: request, ActingAgent: "ann", Vote: api.Deny})
			return err
		}, "POST " + group + "/requests/" + request.String() + `/vote as ann {"vote":"deny"}`},
		"find": {func(ctx context.Context, c *Session) error {
			_, err := c.Directory.FindGroups(ctx, api.FindGroups{Query: &word, Limit: 2})
			return err
		}, "GET /directory/groups?limit=2&q=crates in public"},
		"profile": {func(ctx context.Context, c *Session) error {
			_, err := c.Directory.GroupProfile(ctx, circle)
			return err
		}, "GET /directory" + group + " in public"},
	}
	s := newScript(t)
	var got string
	s.Mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		got = heard(r)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		clienttest.Answer(w, 200, json.RawMessage(map[bool]string{true: "[]", false: "{}"}[r.URL.Path == "/groups/invites"]))
	})
	c := s.client(t)
	for name, k := range calls {
		if err := k.call(t.Context(), c); err != nil || got != k.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, k.want)
		}
	}
}

// heard returns a request as one line.
func heard(r *http.Request) string {
	text := r.Method + " " + r.URL.RequestURI()
	if agent := r.Header.Get("X-Svc-Agent"); agent != "" {
		text += " as " + agent
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		text += " key " + key
	}
	if r.Header.Get("Authorization") == "" {
		text += " in public"
	}
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		text += " " + strings.TrimSpace(string(body))
	}
	return text
}

func TestGroupPagesAreWalked(t *testing.T) {
	s := newScript(t)
	page := func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("cursor") {
		case "":
			clienttest.Answer(w, 200, json.RawMessage(`{"items":[{}],"next_cursor":"2","has_more":true}`))
		case "2":
			clienttest.Answer(w, 200, json.RawMessage(`{"items":[{},{}],"next_cursor":null,"has_more":false}`))
		default:
			clienttest.Refuse(w, 400, "invalid_cursor", nil)
		}
	}
	for _, path := range []string{"/groups", "/groups/{id}/members", "/groups/{id}/requests", "/directory/groups"} {
		s.Mux.HandleFunc("GET "+path, page)
	}
	c := s.client(t)
	counts := map[string]int{}
	for _, err := range All(t.Context(), c.Groups.List, api.ListGroups{}) {
		counts["groups"] += bit(err)
	}
	for _, err := range All(t.Context(), c.Groups.Members, api.ListMembers{ID: circle}) {
		counts["members"] += bit(err)
	}
	for _, err := range All(t.Context(), c.Groups.Requests, api.ListRequests{ID: circle}) {
		counts["requests"] += bit(err)
	}
	for _, err := range All(t.Context(), c.Directory.FindGroups, api.FindGroups{}) {
		counts["found"] += bit(err)
	}
	for _, what := range []string{"groups", "members", "requests", "found"} {
		if counts[what] != 3 {
			t.Errorf("%s: %d rows of 3", what, counts[what])
		}
	}
}

// bit returns 1 for a row, and -100 for an error.
func bit(err error) int {
	if err != nil {
		return -100
	}
	return 1
}
