package http

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
)

// TestGroupEventsOnTheStream: an agent's stream has the events of its groups, in order
// among the messages.
func TestGroupEventsOnTheStream(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("ops", "")
	agent, err := parley.ParseID[parley.AgentID](g.bob)
	if err != nil {
		t.Fatal(err)
	}
	live := g.listen(agent, g.second.token, "")
	g.seat(id, g.second, g.bob)
	sent := g.first.ask("POST", "/messages", `{"to_handle":"#ops@first.home.example","type":"a.b.c","encrypted_payload":"AA"}`).want(201)
	g.first.ask("DELETE", "/groups/"+id+"/members/"+g.bob, "").want(204)
	first := hearGroup(t, live, sent.text("conversation_id"))
	_ = live.conn.Close()
	again := g.listen(agent, g.second.token, parley.MessageID{}.String())
	if second := hearGroup(t, again, sent.text("conversation_id")); second != first {
		t.Errorf("read again, the stream has\n%s, live it had\n%s", second, first)
	}
	_ = again.conn.Close()
	if want := "invited,member.joined,request.resolved,copy,member.left"; !sameOrder(first, want) {
		t.Errorf("the stream has %s, which is not in the order of %s", first, want)
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		page := g.second.ask("GET", "/agents/"+g.bob+"/messages?type=a.b.c", "").want(200)
		if page.text("items.0.status") == "delivered" {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("a copy that was sent on a stream is not delivered: %s", page.raw)
		}
	}
}

// groupQueued reads events until the agent has left the group, and returns their kinds.
func hearGroup(t *testing.T, l *streamReader, conversation string) string {
	t.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var kinds []string
	for {
		e, ok := l.next()
		if !ok {
			t.Fatalf("the stream ended after %v", kinds)
		}
		switch {
		case e.name == "group":
			var news struct {
				Kind      string  `json:"kind"`
				RequestID *string `json:"request_id"`
			}
			if err := json.Unmarshal([]byte(e.data), &news); err != nil || e.id != "" || strings.HasPrefix(news.Kind, "member") != (news.RequestID == nil) {
				t.Errorf("a group event: %+v %v", e, err)
			}
			kinds = append(kinds, news.Kind)
			if news.Kind == "member.left" {
				return strings.Join(kinds, ",")
			}
		case e.name == "message" && conversationOfEvent(t, e) == conversation:
			kinds = append(kinds, "copy")
		}
	}
}

// sameOrder reports whether got contains all of want, in the same order.
func sameOrder(got, want string) bool {
	words := strings.Split(got, ",")
	for _, w := range strings.Split(want, ",") {
		for len(words) > 0 && words[0] != w {
			words = words[1:]
		}
		if len(words) == 0 {
			return false
		}
		words = words[1:]
	}
	return true
}
