package http

import (
	"fmt"
	"strings"
	"testing"

	"parley"
	"parley/http/buffer"
	"parley/http/limit"
)

// longPayload makes a body, its content and the answer take a sheet of longSheet
// each.
var longPayload = strings.Repeat("Q", parley.PayloadCharsMax)

const longSheet = 256 << 10

func (p *tenant) inbox(agent string) *response {
	p.t.Helper()
	return p.ask("GET", "/agents/"+agent+"/messages", "").want(200)
}

// TestARefusedSendHasDoneNothing: where the answer of a send may not be held, the
// send is refused before the message is stored.
func TestARefusedSendHasDoneNothing(t *testing.T) {
	g := newGroupHarness(t)
	g.opsGroup()
	said := `"type":"a.b.c","encrypted_payload":"` + longPayload + `"}`
	toBob := `{"to_agent_id":"` + g.bob + `",`
	first := g.second.ask("POST", "/messages", `{"to_agent_id":"`+g.ann+`","type":"a.b.c","encrypted_payload":"AA"}`, as("bob")).want(201)
	budget := g.setBudget
	defer budget(nil)
	for _, c := range []struct{ path, body string }{
		{"/messages", toBob + said},
		{"/messages", `{"to_handle":"#ops@first.home.example",` + said},
		{"/messages/" + first.text("id") + "/reply", "{" + said},
		{"/messages/sync?timeout_ms=1000", toBob + said},
	} {
		before := g.second.inbox(g.bob).len("items")
		budget(limit.NewBudget(20 * longSheet)) // 2.2 sheets
		g.first.ask("POST", c.path, c.body, as("ann")).want(503, "overloaded")
		budget(nil)
		if after := g.second.inbox(g.bob).len("items"); after != before {
			t.Errorf("%s %.30s was refused, and bob has %d messages more", c.path, c.body, after-before)
		}
		budget(limit.NewBudget(32 * longSheet)) // 3.6 sheets
		if a := g.first.ask("POST", c.path, c.body, as("ann")); a.status >= 300 {
			t.Errorf("%s %.30s: %d %.200s", c.path, c.body, a.status, a.raw)
		}
		budget(nil)
	}
}

// TestAReplyThatMayNotBeHeldIsNotLost: a sync that may not hold the reply with what
// was sent ends, and the reply has not been delivered.
func TestAReplyThatMayNotBeHeldIsNotLost(t *testing.T) {
	g := newGroupHarness(t)
	defer g.setBudget(nil)
	g.setBudget(limit.NewBudget(32 * longSheet)) // 3.6 sheets, of which all that is sent takes three
	answered := make(chan *response, 1)
	go func() {
		answered <- g.first.ask("POST", "/messages/sync?timeout_ms=20000", `{"to_agent_id":"`+g.bob+`","type":"a.b.c","encrypted_payload":"`+longPayload+`"}`, as("ann"))
	}()
	await(t, "a sync that waits does not hold what it takes", func() bool { return g.budget().Stats().Held == 3*longSheet })
	var message string
	await(t, "the message has not come", func() bool {
		page := g.second.inbox(g.bob)
		if page.len("items") == 1 {
			message = page.text("items.0.id")
		}
		return message != ""
	})
	await(t, "what has left still holds", func() bool { return g.budget().Stats().Held == 3*longSheet })
	reply := g.second.ask("POST", "/messages/"+message+"/reply", `{"type":"a.b.c","encrypted_payload":"`+longPayload+`"}`).want(201)
	(<-answered).want(503, "outcome_unknown")
	waited := g.first.ask("GET", "/agents/"+g.ann+"/wait?timeout_ms=1000", "").want(200)
	waited.is(map[string]any{"items.0.id": reply.text("id")})
}

// TestAnAnswerCountsItsSheet: what counts is the memory that an answer takes, not
// its length.
func TestAnAnswerCountsItsSheet(t *testing.T) {
	const readers = 10
	h := wireHarness(t, 1)
	defer h.close()
	h.longInbox(t)
	h.setBudget(limit.NewBudget(1 << 30))
	page := h.request("GET", "/agents/"+h.to.String()+"/messages?limit=5", nil) // of 650 KiB
	before := liveHeap()
	for range readers {
		w := newWire(newReceiver(false))
		defer w.Close()
		w.answer = nil
		defer w.hold()()
		h.conns <- w
		w.asked <- page
	}
	want := int64(readers * buffer.Size(5*parley.PayloadCharsMax))
	await(t, fmt.Sprintf("not %d bytes count", want), func() bool { return h.budget().Stats().Held == want })
	if grown := int64(liveHeap() - before); grown > want+readers*heldFile {
		t.Errorf("%d bytes count, and the heap grew by %d", want, grown)
	}
}

func TestSheetsTakeWhatCountsForThem(t *testing.T) {
	for size := 1; size < 8<<20; size += size/3 + 1 {
		s := buffer.New(size)
		if size > limit.Small && cap(s.Bytes) > buffer.Size(size) {
			t.Fatalf("a sheet for %d bytes takes %d, and %d count", size, cap(s.Bytes), buffer.Size(size))
		}
		s.Bytes = append(s.Bytes[:cap(s.Bytes)], make([]byte, size/2)...) // more than was thought
		s.Free()
	}
}
