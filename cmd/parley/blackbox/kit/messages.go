package kit

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ask makes a sync call in the background.
func (g *Agent) Ask(to *Agent, query string, more Obj, headers ...string) <-chan *Answer {
	out := make(chan *Answer, 1)
	go func() {
		out <- g.Post("/messages/sync"+query, Message(to, more), append([]string{"X-Svc-Agent", g.ID}, headers...)...)
	}()
	return out
}

// Judged checks the form of a sync answer and returns it.
func Judged(a *Answer, status string) *Answer {
	a.T.Helper()
	a.Want(200).Is("status", status)
	for _, field := range []string{"message", "reply", "conversation_id", "status"} {
		if _, ok := a.Body[field]; !ok {
			a.Errorf("no field %s", field)
		}
	}
	m, _ := a.At("message").(Obj)
	Shaped(a.T, "message", m, MessageShape)
	a.Is("conversation_id", m["conversation_id"], "message.direction", "sent", "message.metadata.provenance.via", "sync")
	if r, ok := a.At("reply").(Obj); ok {
		Shaped(a.T, "reply", r, MessageShape)
		a.Is("reply.direction", "received", "reply.conversation_id", m["conversation_id"])
	} else if status == "replied" {
		a.Errorf("no reply")
	}
	return a
}

// Arrival waits until the inbox has count messages and returns the newest.
func (g *Agent) Arrival(count int) Obj {
	g.T.Helper()
	var rows []Obj
	Eventually(g.T, "a message arrives", func() bool {
		rows = g.Inbox("").Items()
		return len(rows) >= count
	})
	return rows[0]
}

// Request makes a request as this agent.
func (g *Agent) Request(method, path string, body any, headers ...string) *Answer {
	return g.S.Call(g.T, g.Token, method, path, body, append([]string{"X-Svc-Agent", g.ID}, headers...)...)
}

// List reads all pages of a listing as this agent.
func (g *Agent) List(path, query string) []Obj {
	g.T.Helper()
	var all []Obj
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

// Repeated checks that an answer repeats a stored message.
func (a *Answer) Repeated(m Obj) *Answer {
	a.T.Helper()
	a.Want(200).Is("id", m["id"], "encrypted_payload", m["encrypted_payload"], "created_at", m["created_at"], "conversation_id", m["conversation_id"])
	if a.Header.Get("Idempotency-Replayed") != "true" {
		a.Errorf("Idempotency-Replayed is %q", a.Header.Get("Idempotency-Replayed"))
	}
	return a
}

// First checks that an answer is the first for its message.
func (a *Answer) First() *Answer {
	a.T.Helper()
	a.Want(201)
	if a.Header.Get("Idempotency-Replayed") != "" {
		a.Errorf("a first send says that it is a repeat")
	}
	return a
}

// Largest is a message of the maximum size, with a copy for its sender.
func Largest() Obj {
	payload := strings.Repeat("Q", 131072)
	return Obj{"encrypted_payload": payload, "self_encrypted_payload": payload}
}

// Polled requests the poll URL as issued, which is absolute.
func (s *Server) Polled(t testing.TB, address, query string) *Answer {
	return s.Call(t, "", "GET", strings.TrimPrefix(address, s.Base)+query, nil)
}

// Marked waits until both sides see a message in a status. The sender's read records no
// receipt.
func Marked(t testing.TB, sender *Agent, m Obj, status string) Obj {
	t.Helper()
	var got *Answer
	Eventually(t, "message "+Text(m, "id")+" is "+status, func() bool {
		got = sender.Peek(m)
		return got.At("status") == status
	})
	if delivered := got.At("delivered_at"); (delivered == nil) != (status == "new") {
		got.Errorf("delivered_at does not fit %s", status)
	}
	if read := got.At("read_at"); (read == nil) != (status != "read") {
		got.Errorf("read_at does not fit %s", status)
	}
	got.Shaped(MessageShape)
	return got.Body
}

// Acked acknowledges and checks the form of the answer.
func (g *Agent) Acked(body Obj, count int) {
	g.T.Helper()
	a := g.Post(g.Path("/messages/ack"), body).Want(200)
	Exactly(g.T, "the answer", a.Body, "acked up_to")
	a.Is("acked", float64(count), "up_to", body["up_to"])
}

// ToHandle is the smallest valid body of a send to a handle.
func ToHandle(handle string, more ...Obj) Obj {
	return Merged(Obj{"to_handle": handle, "type": "svc.v1.dm", "encrypted_payload": "QQ"}, more...)
}

// SettleWait is the maximum time that an answer waits for other homes. An answer that
// took longer may precede its effect.
const SettleWait = 90 * time.Millisecond

// Given checks the answer of a wait: the messages and the number that follow. It returns
// the query that continues after it.
func Given(a *Answer, unread int, want ...Obj) string {
	a.T.Helper()
	a.Want(200)
	Exactly(a.T, "the answer", a.Body, "items after unread")
	rows, _ := a.At("items").([]any)
	items := Objects(rows)
	for _, m := range items {
		Shaped(a.T, "an item", m, MessageShape)
		if m["status"] == "new" || m["direction"] != "received" {
			a.Errorf("an item is not received and transferred")
		}
	}
	if got := IDs(items); !slices.Equal(got, IDs(want)) {
		a.Errorf("items are %v, want %v", got, IDs(want))
	}
	if a.Is("unread", float64(unread)); len(items) > 0 {
		a.Is("after", items[len(items)-1]["id"])
	}
	return fmt.Sprintf("timeout_ms=1000&after=%v", a.At("after"))
}
