package http

import (
	"fmt"
	"strings"
	"testing"

	"parley/client/parley"
	"parley/http/buffer"
	"parley/http/limit"
)

// longPayload is so long that the body, its content and the answer take one buffer of
// longSheet bytes each.
var longPayload = strings.Repeat("Q", parley.PayloadCharsMax)

const longSheet = 256 << 10

func (p *tenant) inbox(agent string) *response {
	p.t.Helper()
	return p.ask("GET", "/agents/"+agent+"/messages", "").want(200)
}

// TestRefusedSendStoresNothing: if the budget has no room for the answer to a send, the
// send is refused before the message is stored.
func TestRefusedSendStoresNothing(t *testing.T) {
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
		budget(limit.NewBudget(20 * longSheet)) // room for 2.2 buffers
		g.first.ask("POST", c.path, c.body, as("ann")).want(503, "overloaded")
		budget(nil)
		if after := g.second.inbox(g.bob).len("items"); after != before {
			t.Errorf("%s %.30s was refused, but bob has %d messages more", c.path, c.body, after-before)
		}
		budget(limit.NewBudget(32 * longSheet)) // room for 3.6 buffers
		if a := g.first.ask("POST", c.path, c.body, as("ann")); a.status >= 300 {
			t.Errorf("%s %.30s: %d %.200s", c.path, c.body, a.status, a.raw)
		}
		budget(nil)
	}
}

// TestReplyWithoutRoomIsNotLost: if the budget has no room for the reply to a sync, the
// sync ends without it, and the reply is not delivered.
func TestReplyWithoutRoomIsNotLost(t *testing.T) {
	g := newGroupHarness(t)
	defer g.setBudget(nil)
	g.setBudget(limit.NewBudget(32 * longSheet)) // room for 3.6 buffers; the request takes three
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

// TestAnswerCountsItsBuffer: an answer counts with the memory that it takes, not with
// its length.
func TestAnswerCountsItsBuffer(t *testing.T) {
	const readers = 10
	h := wireHarness(t, 1)
	defer h.close()
	h.longInbox(t)
	h.setBudget(limit.NewBudget(1 << 30))
	page := h.request("GET", "/agents/"+h.to.String()+"/messages?limit=5", nil) // 650 KiB
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
		t.Errorf("%d bytes are counted, but the heap grew by %d", want, grown)
	}
}

func TestBuffersTakeTheCountedSize(t *testing.T) {
	for size := 1; size < 8<<20; size += size/3 + 1 {
		s := buffer.New(size)
		if size > limit.Small && cap(s.Bytes) > buffer.Size(size) {
			t.Fatalf("a buffer for %d bytes takes %d, but %d are counted", size, cap(s.Bytes), buffer.Size(size))
		}
		s.Bytes = append(s.Bytes[:cap(s.Bytes)], make([]byte, size/2)...) // more than expected
		s.Free()
	}
}
