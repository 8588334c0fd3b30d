package http

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/client/parley"
	"parley/http/streams"
)

// inVirtualTime runs the real server, actors and journal in a bubble where waiting
// takes no time.
func inVirtualTime(t *testing.T, test func(*testing.T, *harness)) {
	theEngineClock()
	synctest.Test(t, func(t *testing.T) {
		h := harnessInMemory(t, 1)
		defer time.Sleep(time.Minute) // until the engine's sweeper ends
		defer h.close()
		test(t, h)
	})
}

// heartbeats reads n heartbeats and checks the time between them.
func heartbeats(t *testing.T, l *streamReader, n int) {
	t.Helper()
	last := time.Now()
	for i := range n {
		e, ok := l.next()
		if !ok || e.name != "heartbeat" || !strings.HasPrefix(e.data, `{"timestamp":"2`) || e.id != "" {
			t.Fatalf("instead of heartbeat %d: %v %+v", i+1, ok, e)
		}
		if d := e.at.Sub(last); d < parley.HeartbeatEvery-time.Second || d > parley.HeartbeatEvery+time.Second {
			t.Errorf("heartbeat %d comes after %v", i+1, d)
		}
		last = e.at
	}
}

func over(t *testing.T, l *streamReader) {
	t.Helper()
	if e, ok := l.next(); ok {
		t.Errorf("the stream continues with %+v", e)
	}
}

func TestIdleStreamEndsAfterThirtyHeartbeats(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		id := h.agent("alice")
		began := time.Now()
		l := h.listen(id, h.token(h.client), "")
		heartbeats(t, l, parley.HeartbeatsBeforeClose)
		over(t, l)
		if took := time.Since(began).Round(time.Second); took < 15*time.Minute || took > 15*time.Minute+31*time.Second {
			t.Errorf("it ended after %v", took)
		}
		if n := h.service.OpenStreams(); n != 0 {
			t.Errorf("%d streams are still open", n)
		}
	})
}

func TestMessageRestartsHeartbeatCount(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		alice, bob := h.agent("alice"), h.agent("bob")
		l := h.listen(alice, h.token(h.client), "")
		heartbeats(t, l, 29)
		time.Sleep(10 * time.Second)
		sent := h.send(bob, alice, 1)
		if e, ok := l.next(); !ok || e.name != "message" || e.id != sent.MessageID().String() || e.number(t) != 1 {
			t.Fatalf("instead of the message: %v %+v", ok, e)
		}
		heartbeats(t, l, parley.HeartbeatsBeforeClose)
		over(t, l)
	})
}

// TestStreamEndsWithItsAgentOrCredential: the agent or the credential is revoked
// without the server, as another node would.
func TestStreamEndsWithItsAgentOrCredential(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		ctx := context.Background()
		alice, bob := h.agent("alice"), h.agent("bob")
		made, err := h.node.Orgs.AddCredential(ctx, h.owner, org.AddCredential{SecretHash: []byte("hash")})
		if err != nil {
			t.Fatal(err)
		}
		client := made.Client()
		byAgent, byClient := h.listen(alice, h.token(h.client), ""), h.listen(bob, h.token(client), "")
		stays := h.listen(bob, h.token(h.client), "")
		time.Sleep(7 * time.Second)
		revoked := time.Now()
		if _, err := h.node.Agents.Change(ctx, alice, agent.Revoke{}); err != nil {
			t.Fatal(err)
		}
		if err := h.node.Orgs.RevokeCredential(ctx, h.owner, client); err != nil {
			t.Fatal(err)
		}
		for name, l := range map[string]*streamReader{"agent": byAgent, "credential": byClient} {
			for ok := true; ok; _, ok = l.next() {
			}
			if took := time.Since(revoked); took > time.Minute {
				t.Errorf("the stream of a revoked %s stayed open for %v", name, took)
			}
		}
		for _, id := range []parley.AgentID{alice} {
			if l := h.listen(id, h.token(h.client), ""); l.status != 410 {
				t.Errorf("a stream of a revoked agent: %d", l.status)
			}
		}
		if e, ok := stays.next(); !ok || e.name != "heartbeat" {
			t.Errorf("the other stream: %v %+v", ok, e)
		}
	})
}

// TestBusyStreamEndsWithItsCredential: a stream so busy that it needs no heartbeat also
// ends with its credential.
func TestBusyStreamEndsWithItsCredential(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		ctx, alice, bob := context.Background(), h.agent("alice"), h.agent("bob")
		made, err := h.node.Orgs.AddCredential(ctx, h.owner, org.AddCredential{SecretHash: []byte("hash")})
		if err != nil {
			t.Fatal(err)
		}
		client := made.Client()
		l := h.listen(alice, h.token(client), "")
		go func() { _, _ = io.Copy(io.Discard, l.lines) }()
		if err := h.node.Orgs.RevokeCredential(ctx, h.owner, client); err != nil {
			t.Fatal(err)
		}
		for n := range 13 {
			time.Sleep(5 * time.Second)
			h.send(bob, alice, n)
		}
		synctest.Wait()
		if n := h.service.OpenStreams(); n != 0 {
			t.Errorf("after 65 seconds %d streams are open", n)
		}
	})
}

func TestExpiredTokenDoesNotEndStream(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		alice, bob, token := h.agent("alice"), h.agent("bob"), h.token(h.client)
		l := h.listen(alice, token, "").eager()
		for n := range 5 {
			time.Sleep(10 * time.Minute)
			h.send(bob, alice, n)
			e, ok := l.next()
			for ok && e.name == "heartbeat" {
				e, ok = l.next()
			}
			if !ok || e.number(t) != n {
				t.Fatalf("after %d minutes: %v %+v", 10*(n+1), ok, e)
			}
		}
		if late := h.listen(alice, token, ""); late.status != 401 {
			t.Errorf("a new stream with the expired token: %d", late.status)
		}
	})
}

// TestSlowReaderIsDisconnectedAndResumes: a reader that reads nothing is disconnected
// after the write wait and misses nothing when it resumes. Other readers are not
// delayed.
func TestSlowReaderIsDisconnectedAndResumes(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		alice, bob := h.agent("alice"), h.agent("bob")
		slow, quick := h.listen(alice, h.token(h.client), ""), h.listen(alice, h.token(h.client), "")
		const messages = 40
		for n := range messages {
			sent := time.Now()
			h.send(bob, alice, n)
			if e, ok := quick.next(); !ok || e.number(t) != n || e.at.Sub(sent) > time.Second {
				t.Fatalf("the quick reader gets %+v after %v", e, e.at.Sub(sent))
			}
			synctest.Wait() // so that each message is offered alone; they exceed the connection's buffer
		}
		synctest.Wait()
		if n := h.service.OpenStreams(); n != 2 {
			t.Fatalf("before the end of the write wait %d streams are open", n)
		}
		time.Sleep(streams.WriteWait + time.Second)
		if n := h.service.OpenStreams(); n != 1 {
			t.Fatalf("after the write wait %d streams are open", n)
		}
		heardAll := 0
		for l := slow; heardAll < messages; l = h.listen(alice, h.token(h.client), l.last) {
			for {
				e, ok := l.next()
				if !ok || e.name != "message" {
					break
				}
				if e.number(t) != heardAll {
					t.Fatalf("message %d follows %d", e.number(t), heardAll-1)
				}
				if heardAll++; heardAll == messages {
					break
				}
			}
		}
	})
}

func TestDrainEndsStreams(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		alice := h.agent("alice")
		var all []*streamReader
		for range 20 {
			all = append(all, h.listen(alice, h.token(h.client), ""))
		}
		began := time.Now()
		h.shut()
		for _, l := range all {
			over(t, l)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if conn, err := h.dial(); err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && err == nil {
				t.Error("a drained server sends something")
			}
		}
	})
}

// TestDisconnectedClientIsNoticedAtOnce: a client that disconnects is noticed at once,
// even if nothing is written to it.
func TestDisconnectedClientIsNoticedAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		l := h.listen(h.agent("alice"), h.token(h.client), "")
		synctest.Wait()
		if n := h.service.OpenStreams(); n != 1 {
			t.Fatalf("%d streams are open", n)
		}
		_ = l.conn.Close()
		synctest.Wait()
		if n := h.service.OpenStreams(); n != 0 {
			t.Errorf("%d streams are open without a client", n)
		}
	})
}

// TestStreamStartPositions resumes a stream from every kind of position.
func TestStreamStartPositions(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, h *harness) {
		alice, bob := h.agent("alice"), h.agent("bob")
		nobody := parley.MessageID{}.String()
		l := h.listen(alice, h.token(h.client), "")
		if l.start != nobody || l.gap {
			t.Errorf("an empty stream begins with %s", l.start)
		}
		_ = l.conn.Close()
		synctest.Wait() // no stream transfers what follows
		var sent []string
		for n := range 3 {
			sent = append(sent, h.send(bob, alice, n).MessageID().String())
		}
		for _, c := range []struct {
			last, start string
			first       int // -1: no message follows
			gap         bool
		}{
			{sent[2], sent[2], -1, false},
			{"", nobody, 0, false}, // nothing was transferred before; this stream transfers everything
			{"", sent[2], -1, false},
			{sent[0], sent[0], 1, false},
			{nobody, nobody, 0, false},
			{"no-uuid", sent[2], -1, true},
			{parley.MessageID{1}.String(), sent[2], -1, true},
		} {
			l := h.listen(alice, h.token(h.client), c.last)
			if l.start != c.start {
				t.Errorf("after %q the stream begins with %s", c.last, l.start)
			}
			for n := c.first; n >= 0 && n < len(sent); n++ {
				if e, ok := l.next(); !ok || e.name != "message" || e.number(t) != n {
					t.Errorf("after %q: %+v instead of message %d", c.last, e, n)
				}
			}
			if e, ok := l.next(); !ok || e.name != "heartbeat" || l.gap != c.gap {
				t.Errorf("after %q: %+v, gap %v", c.last, e, l.gap)
			}
			_ = l.conn.Close()
		}
		for _, c := range []struct{ query, header, start string }{
			{sent[0], "", sent[0]},
			{sent[0], sent[1], sent[1]}, // the header wins
			{"", sent[1], sent[1]},
			{"no-uuid", "", sent[2]},
		} {
			l := h.listenAt("/agents/"+alice.String()+"/stream?lastEventId="+c.query+"&token=unknown", h.token(h.client), c.header)
			if l.start != c.start {
				t.Errorf("after %q in the query and %q in the header the stream begins with %s", c.query, c.header, l.start)
			}
			_ = l.conn.Close()
		}
	})
}
