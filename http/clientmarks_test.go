package http

import (
	"context"
	"errors"
	"net"
	stdhttp "net/http"
	"testing"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

// guest is an organization that uses the Go client.
type guest struct {
	*client.Session
	h     *harness
	owner parley.OrgID
}

// guest registers an organization with the client.
func (h *harness) guest(slug string) *guest {
	h.t.Helper()
	transport := &stdhttp.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return h.dial() }}
	h.t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New("http://home", client.WithHTTPClient(&stdhttp.Client{Transport: transport}), client.WithRetries(1, 0))
	if err != nil {
		h.t.Fatal(err)
	}
	credentials, err := c.Register(h.t.Context(), api.Register{Email: "ops@" + slug + ".example", OrgSlug: slug})
	if err != nil {
		h.t.Fatal(err)
	}
	return &guest{Session: c.Authenticated(*credentials), h: h, owner: credentials.OrgID}
}

func (g *guest) agent(name string) parley.AgentID {
	g.h.t.Helper()
	raw := append([]byte(name), make([]byte, 32)...)[:32]
	a, err := g.h.node.Agents.Create(g.h.t.Context(), actors.NewAgent{Create: agent.Create{
		OrgID: g.owner, Name: name, SigningKey: raw, EncryptionKey: raw, PollTokenHash: raw,
	}})
	if err != nil {
		g.h.t.Fatal(err)
	}
	return a.AgentID()
}

// sends sends a message and returns its id.
func (g *guest) sends(to parley.AgentID) parley.MessageID {
	g.h.t.Helper()
	m, err := g.Messages.Send(g.h.t.Context(), api.Send{ToAgentID: &to, Type: "svc.v1.dm", EncryptedPayload: "aGVsbG8"})
	if err != nil {
		g.h.t.Fatal(err)
	}
	return m.ID
}

// TestClientMarks: the results of the client's calls for receipts, waits and traces
// match what the service did.
func TestClientMarks(t *testing.T) {
	for _, journals := range []int{1, 4} {
		h := harnessInMemory(t, journals)
		ann, bob := h.guest("acme"), h.guest("globex")
		ann.agent("ann")
		to, ctx := bob.agent("bob"), t.Context()
		var sent []parley.MessageID
		for range 6 {
			sent = append(sent, ann.sends(to))
		}
		traced, err := ann.Messages.Trace(ctx, sent[0])
		if err != nil || traced.MessageID != sent[0] || traced.PendingReason == nil || traced.Position != nil || traced.DeliveredAt != nil || len(traced.Attempts) != 0 {
			t.Errorf("trace of an undelivered message: %+v, %v", traced, err)
		}
		read, err := bob.Messages.Read(ctx, sent[0])
		if err != nil || read.ID != sent[0] || read.Status != api.MessageRead || read.ReadAt == nil || read.Direction != api.Received {
			t.Fatalf("read: %+v, %v", read, err)
		}
		if again, err := bob.Messages.Read(ctx, sent[0]); err != nil || !again.ReadAt.Equal(read.ReadAt.Time) {
			t.Errorf("read again: %+v, %v", again, err)
		}
		if traced, err = bob.Messages.Trace(ctx, sent[0]); err != nil || traced.Position == nil || traced.ReadAt == nil || !traced.ReadAt.Equal(read.ReadAt.Time) || traced.PendingReason != nil {
			t.Errorf("trace of a message that was read: %+v, %v", traced, err)
		}
		for _, c := range []struct {
			in   api.Ack
			want int
		}{{api.Ack{ID: to, UpTo: &sent[2]}, 2}, {api.Ack{ID: to, UpTo: &sent[2]}, 0}, {api.Ack{ID: to, IDs: []parley.MessageID{sent[2], sent[4]}}, 1}, {api.Ack{ID: to, IDs: []parley.MessageID{}}, 0}} {
			if acked, err := bob.Messages.Ack(ctx, c.in); err != nil || acked.Acked != c.want || (acked.UpTo == nil) != (c.in.UpTo == nil) {
				t.Errorf("ack of %+v: %+v, %v", c.in, acked, err)
			}
		}
		first, err := bob.Messages.Wait(ctx, api.Wait{ID: to})
		if err != nil || len(first.Items) != 2 || first.Items[0].ID != sent[3] || first.Items[1].ID != sent[5] || first.After == nil || *first.After != sent[5] || first.Unread != 0 {
			t.Fatalf("wait: %+v, %v", first, err)
		}
		coming := make(chan *api.Waited, 1)
		go func() {
			more, err := bob.Messages.Wait(ctx, api.Wait{ID: to, After: first.After, TimeoutMS: 60000})
			if err != nil {
				t.Error(err)
			}
			coming <- more
		}()
		last := ann.sends(to)
		if more := <-coming; more == nil || len(more.Items) != 1 || more.Items[0].ID != last {
			t.Errorf("message sent during the wait: %+v", more)
		}
		if none, err := bob.Messages.Wait(ctx, api.Wait{ID: to, After: &last, TimeoutMS: 1000}); err != nil || none.Items == nil || len(none.Items) != 0 || none.After == nil || *none.After != last {
			t.Errorf("wait without a message: %+v, %v", none, err)
		}
		if traced, err = bob.Messages.Trace(ctx, last); err != nil || len(traced.Attempts) != 1 || traced.Attempts[0].Channel != "wait" || traced.DeliveredAt == nil {
			t.Errorf("trace of a message from a wait: %+v, %v", traced, err)
		}
		h.close()
	}
}

// TestClientMarksRefused: errors of these calls have the same types as those of other
// calls.
func TestClientMarksRefused(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	ann, bob := h.guest("acme"), h.guest("globex")
	ann.agent("ann")
	to, ctx := bob.agent("bob"), t.Context()
	gone := bob.agent("gone")
	m, unknown := ann.sends(to), parley.NextID(parley.MessageID{}, time.UnixMilli(1), [10]byte{})
	if _, err := h.node.Agents.Change(ctx, gone, agent.Revoke{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Messages.Ack(ctx, api.Ack{ID: to, UpTo: &m, IDs: []parley.MessageID{m}}); !errors.Is(err, client.ValidationError) {
		t.Errorf("both fields at once: %v", err)
	}
	for what, c := range map[string]struct {
		call   func() error
		status int
		code   client.Code
	}{
		"read of nothing":        {func() error { _, err := bob.Messages.Read(ctx, unknown); return err }, 404, client.NotFound},
		"read of another's":      {func() error { _, err := ann.Messages.Read(ctx, m); return err }, 403, client.NotOwner},
		"trace of nothing":       {func() error { _, err := bob.Messages.Trace(ctx, unknown); return err }, 404, client.NotFound},
		"ack of nothing":         {func() error { _, err := bob.Messages.Ack(ctx, api.Ack{ID: to, UpTo: &unknown}); return err }, 404, client.NotFound},
		"ack for another":        {func() error { _, err := ann.Messages.Ack(ctx, api.Ack{ID: to, UpTo: &m}); return err }, 403, client.NotOwner},
		"ack of neither":         {func() error { _, err := bob.Messages.Ack(ctx, api.Ack{ID: to}); return err }, 422, client.ValidationError},
		"wait for another":       {func() error { _, err := ann.Messages.Wait(ctx, api.Wait{ID: to}); return err }, 403, client.NotOwner},
		"wait for the revoked":   {func() error { _, err := bob.Messages.Wait(ctx, api.Wait{ID: gone}); return err }, 410, client.Gone},
		"wait after nothing":     {func() error { _, err := bob.Messages.Wait(ctx, api.Wait{ID: to, After: &unknown}); return err }, 404, client.NotFound},
		"wait for an instant":    {func() error { _, err := bob.Messages.Wait(ctx, api.Wait{ID: to, TimeoutMS: 1}); return err }, 422, client.ValidationError},
		"trace by a third party": {func() error { _, err := h.guest("third").Messages.Trace(ctx, m); return err }, 403, client.NotOwner},
	} {
		err := c.call()
		var e *client.Error
		if !errors.As(err, &e) || !errors.Is(err, c.code) || e.Status != c.status || e.Class == "" || e.Detail == "" || e.RequestID == "" || (len(e.Fields) > 0) != (c.status == 422) {
			t.Errorf("%s: %#v", what, err)
		}
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := bob.Messages.Wait(short, api.Wait{ID: to, After: &m}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled wait: %v", err)
	}
}
