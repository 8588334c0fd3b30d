package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/client/clienttest"
	"parley/client/parley"
)

const agentText = "01932f00-0000-7001-8000-00000000000a"

func agentA(t testing.TB) parley.AgentID {
	t.Helper()
	id, err := parley.ParseID[parley.AgentID](agentText)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// streaming serves the given connections one after the other. Each gets the
// Last-Event-ID of its request. Later connections stay open and silent.
func (s *script) streaming(t *testing.T, connections ...func(w http.ResponseWriter, lastID string)) *atomic.Int64 {
	t.Helper()
	n := new(atomic.Int64)
	s.Mux.HandleFunc("GET /agents/"+agentText+"/stream", func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		if i >= len(connections) {
			clienttest.OpenStream(w, "")
			<-r.Context().Done()
			return
		}
		connections[i](w, r.Header.Get("Last-Event-ID"))
	})
	return n
}

func messageEvent(id string) string {
	return fmt.Sprintf("event: message\nid: %s\ndata: {\"type\":%q,\"metadata\":{}}\n\n", id, "t-"+id)
}

const statusEvent = "event: status\ndata: {\"conversation_id\":\"" + agentText + "\",\"status\":\"open\"}\n\n"

// follow reads n events and returns them as text.
func follow(t *testing.T, c *Session, n int, opts StreamOptions) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var b strings.Builder
	for e, err := range c.Messages.Stream(ctx, agentA(t), opts) {
		switch {
		case err != nil:
			t.Fatalf("after %s: %v", b.String(), err)
		case e.Message != nil:
			b.WriteString(e.Message.Type)
		case e.Status != nil:
			b.WriteString(e.Status.Status)
		case e.Heartbeat != nil:
			b.WriteString("beat")
		case e.Gap != nil:
			b.WriteString("gap " + e.Gap.Reason)
		default:
			b.WriteString("?" + e.Type)
		}
		b.WriteString("@" + e.LastEventID + " ")
		if n--; n == 0 {
			break
		}
	}
	return strings.TrimSpace(b.String())
}

func TestStreamResumesWhereItStopped(t *testing.T) {
	s := newScript(t)
	var asked []string
	note := func(lastID string) { asked = append(asked, lastID) }
	s.streaming(t,
		func(w http.ResponseWriter, id string) {
			note(id)
			clienttest.OpenStream(w, "id: 0\n\n"+messageEvent("1")+statusEvent+"event: message\nid: 2\ndata: {\"type\":\"half") // cut off inside an event
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, id string) { note(id); drop(nil, nil) },
		func(w http.ResponseWriter, id string) { note(id); unavailable("overloaded")(w, nil) },
		func(w http.ResponseWriter, id string) { note(id); clienttest.Refuse(w, 401, "token_expired", nil) },
		func(w http.ResponseWriter, id string) {
			note(id)
			clienttest.OpenStream(w, "event: gap\ndata: {\"reason\":\"unknown\"}\n\n"+messageEvent("2")+"event: heartbeat\ndata: {\"timestamp\":\"2026-11-20T00:00:00Z\"}\n\n")
		},
		func(w http.ResponseWriter, id string) {
			note(id)
			clienttest.OpenStream(w, "event: new\ndata: x\n\n"+messageEvent("3"))
		},
	)
	var positions []string
	connects := 0
	got := follow(t, s.client(t), 6, StreamOptions{OnConnect: func() { connects++ }, OnPosition: func(id string) { positions = append(positions, id) }})
	if want := "t-1@1 open@1 gap unknown@1 t-2@2 ?new@2 t-3@3"; got != want {
		t.Errorf("got events %s, want %s", got, want)
	}
	if want := "|1|1|1|1|2"; strings.Join(asked, "|") != want {
		t.Errorf("resumed after %q, want %q", asked, want)
	}
	if strings.Join(positions, "|") != "0" || connects != 3 || s.Tokens.Load() != 2 {
		t.Errorf("positions %q, %d connects, %d tokens", positions, connects, s.Tokens.Load())
	}
}

func TestStreamStartPosition(t *testing.T) {
	s := newScript(t)
	s.streaming(t, func(w http.ResponseWriter, id string) {
		clienttest.OpenStream(w, messageEvent(id+"+1")+"event: heartbeat\ndata: {\"timestamp\":\"2026-11-20T00:00:00Z\"}\n\n")
	})
	if got := follow(t, s.client(t), 2, StreamOptions{LastEventID: "9", Heartbeats: true}); got != "t-9+1@9+1 beat@9+1" {
		t.Fatal(got)
	}
}

func TestStreamEndsOnPermanentErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, lastID string)
		want   error
		calls  int64
	}{
		"revoked":       {func(w http.ResponseWriter, _ string) { clienttest.Refuse(w, 410, "gone", nil) }, Gone, 1},
		"not ours":      {func(w http.ResponseWriter, _ string) { clienttest.Refuse(w, 403, "not_owner", nil) }, NotOwner, 1},
		"token refused": {func(w http.ResponseWriter, _ string) { clienttest.Refuse(w, 401, "not_authenticated", nil) }, NotAuthenticated, 2},
		"no stream":     {func(w http.ResponseWriter, _ string) { clienttest.Answer(w, 200, nil) }, ErrNotStream, 1},
		"an endless event": {func(w http.ResponseWriter, _ string) {
			clienttest.OpenStream(w, "data: "+strings.Repeat("x", eventBytesMax+1))
		}, ErrEventTooLong, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			calls := s.streaming(t, c.answer, c.answer, c.answer)
			var last error
			for _, err := range s.client(t).Messages.Stream(t.Context(), agentA(t), StreamOptions{}) {
				last = err
			}
			if !errors.Is(last, c.want) || calls.Load() != c.calls {
				t.Fatalf("%v after %d connections", last, calls.Load())
			}
		})
	}
	s := newScript(t)
	s.streaming(t, func(w http.ResponseWriter, _ string) {
		clienttest.OpenStream(w, "id: 5\nevent: message\ndata: {\"type\":5}\n\n")
	})
	for e, err := range s.client(t).Messages.Stream(t.Context(), agentA(t), StreamOptions{}) {
		if err == nil || e.LastEventID != "5" {
			t.Fatalf("an event that cannot be decoded: %+v %v", e, err)
		}
	}
}

func TestSilentStreamIsReplaced(t *testing.T) {
	s := newScript(t)
	calls := s.streaming(t, func(w http.ResponseWriter, _ string) {
		clienttest.OpenStream(w, messageEvent("1"))
		time.Sleep(500 * time.Millisecond)
	}, func(w http.ResponseWriter, id string) { clienttest.OpenStream(w, messageEvent("2")) })
	var causes []error
	opts := StreamOptions{IdleTimeout: 50 * time.Millisecond, OnReconnect: func(cause error, _ time.Duration) { causes = append(causes, cause) }}
	if got := follow(t, s.client(t), 2, opts); got != "t-1@1 t-2@2" {
		t.Fatal(got)
	}
	if calls.Load() != 2 || len(causes) != 1 || !errors.Is(causes[0], errSilent) {
		t.Fatalf("%d connections, ended by %v", calls.Load(), causes)
	}
}

func TestStreamObeysItsContext(t *testing.T) {
	s := newScript(t)
	s.streaming(t) // sends nothing
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	for _, err := range s.client(t).Messages.Stream(ctx, agentA(t), StreamOptions{OnConnect: cancel}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Fatalf("%d results", n)
	}
}

func TestPausesGrowAndKeepTheirBounds(t *testing.T) {
	s := &subscription{base: 3 * time.Second}
	for i := range 20 {
		ceiling := min(3*time.Second<<min(i, 5), reconnectWaitMax)
		if got := s.pause(io.EOF); got < ceiling/2 || got > ceiling {
			t.Fatalf("pause %d is %v, want %v to %v", i, got, ceiling/2, ceiling)
		}
	}
	if got := s.pause(&Error{RetryAfter: time.Minute}); got != time.Minute {
		t.Fatalf("the server asked for a minute, got %v", got)
	}
	if got := (&subscription{base: time.Hour}).pause(io.EOF); got > reconnectWaitMax {
		t.Fatalf("%v", got)
	}
}
