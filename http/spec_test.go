package http

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/parley"
)

// TestDefaultWaits: a sync that names no time waits 30 seconds, a blocking message over A2A
// 60. // spec: Limits
func TestDefaultWaits(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		first, second := h.tenant("first"), h.tenant("second")
		first.agent("ann")
		bob := second.agent("bob")
		second.publish(bob, card{"name": "Bob", "svc": card{"a2a_enabled": true}})
		for _, c := range []struct {
			path, body string
			want       time.Duration
		}{
			{"/messages/sync", `{"to_agent_id":"` + bob + `","type":"svc.v1.dm","encrypted_payload":"AA"}`, 30 * time.Second},
			{"/a2a/" + second.handle("bob"), `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`, 60 * time.Second},
		} {
			began := time.Now()
			first.ask("POST", c.path, c.body).want(200)
			if took := time.Since(began).Round(time.Second); took != c.want {
				t.Errorf("%s waits %v, want %v", c.path, took, c.want)
			}
		}
	})
}

// TestPollCountsADayByDefault: without since, a poll counts the messages of the last 24
// hours. // spec: Limits
func TestPollCountsADayByDefault(t *testing.T) {
	var late atomic.Int64
	began := time.Now()
	clock := func() time.Time { return began.Add(time.Duration(late.Load())) }
	g := newGroupHarness(t, func(o *harnessOptions) { o.Clock, o.Server.Clock = clock, clock })
	url := g.second.ask("POST", "/agents/"+g.bob+"/poll-token", "").want(200).text("poll_url")
	path := strings.TrimPrefix(url, "https://home.example")
	g.first.ask("POST", "/messages", `{"to_agent_id":"`+g.bob+`","type":"svc.v1.dm","encrypted_payload":"AA"}`).want(201)
	for _, c := range []struct {
		after time.Duration
		query string
		count int
	}{
		{parley.PollSinceDefault - time.Minute, "", 1},
		{parley.PollSinceDefault + time.Minute, "", 0},
		{parley.PollSinceDefault + time.Minute, "?since=" + began.Add(-time.Minute).UTC().Format(time.RFC3339), 1},
	} {
		late.Store(int64(c.after))
		g.public().ask("GET", path+c.query, "").want(200).is(map[string]any{"count": c.count})
	}
}

// TestJoinRequestsExpire: when its time has passed, a request is expired and takes no
// votes. // spec: Join request and membership
func TestJoinRequestsExpire(t *testing.T) {
	var late atomic.Int64
	began := time.Now()
	g := newGroupHarness(t, func(o *harnessOptions) {
		o.Clock = func() time.Time { return began.Add(time.Duration(late.Load())) }
	})
	id := g.group("ops", `,"enrollment_policy":"majority","vote_duration_hours":2`)
	request := g.second.ask("POST", "/groups/"+id+"/join", "").want(200).is(map[string]any{"status": "pending"}).text("request.id")
	status := func(want string) {
		t.Helper()
		g.first.ask("GET", "/groups/"+id+"/requests?status=all", "").want(200).is(map[string]any{"items.0.id": request, "items.0.status": want})
	}
	late.Store(int64(2*time.Hour - time.Minute))
	status("pending")
	late.Store(int64(2*time.Hour + time.Minute))
	status("expired")
	g.first.ask("POST", "/groups/"+id+"/requests/"+request+"/vote", `{"vote":"approve"}`).want(409, "request_closed")
	g.first.ask("GET", "/groups/"+id, "").want(200).is(map[string]any{"member_count": 1})
	g.second.ask("POST", "/groups/"+id+"/join", "").want(200).is(map[string]any{"status": "pending"})
}

// TestDefaultDirectoryPage: a page of the directory has 20 rows by default, of agents and of
// groups. // spec: Limits
func TestDefaultDirectoryPage(t *testing.T) {
	h := newCardHarness(t)
	for i := range 21 {
		if i < 18 {
			h.second.publish(h.second.agent(fmt.Sprint("extra", i)), card{"name": fmt.Sprint("extra", i)})
		}
		h.group(fmt.Sprint("group", i), `,"visibility":"public"`)
	}
	h.settle(21)
	h.settleGroups(21)
	for _, path := range []string{"/directory/agents", "/directory/groups"} {
		page := h.public().ask("GET", path, "").want(200).is(map[string]any{"has_more": true})
		if n := page.len("items"); n != 20 {
			t.Errorf("%s has %d rows", path, n)
		}
	}
}
