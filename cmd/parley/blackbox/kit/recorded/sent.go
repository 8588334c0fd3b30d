package recorded

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// SentMessages records the messages whose sends succeeded, while the sends continue.
type SentMessages struct {
	mu    sync.Mutex
	acked []*kit.Answer
	Stop  chan struct{}
	Wg    sync.WaitGroup
}

// Known returns the acknowledged sends so far.
func (l *SentMessages) Known() []*kit.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[:len(l.acked):len(l.acked)]
}

// Write sends messages until it is stopped and replies to one in four.
func (l *SentMessages) Write(from, to *kit.Agent) {
	payload := strings.Repeat("c2VhbGVk", 100)
	for n := 0; ; n++ {
		select {
		case <-l.Stop:
			return
		default:
		}
		a := from.TrySend(to, kit.Obj{"encrypted_payload": payload}, "Idempotency-Key", from.ID+strconv.Itoa(n))
		if a.Err == nil && a.Status == 201 && n%4 == 0 {
			if r := to.TryReply(a.Body, nil); r.Err != nil || r.Status != 201 {
				r.Errorf("a reply under load")
			}
		}
		if a.Err != nil || a.Status != 201 {
			a.Errorf("a send under load")
			return
		}
		l.mu.Lock()
		l.acked = append(l.acked, a)
		l.mu.Unlock()
	}
}

// WaitForMore waits until n more messages are acknowledged.
func (l *SentMessages) WaitForMore(t testing.TB, n int) []*kit.Answer {
	t.Helper()
	want := len(l.Known()) + n
	for deadline := time.Now().Add(20 * time.Second); len(l.Known()) < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages in 20 s, want %d", len(l.Known()), want)
		}
	}
	return l.Known()
}

// CheckRestored serves a restored directory with the server's old base address, so that tokens
// stay valid, and checks everything in it.
func CheckRestored(t *testing.T, s *kit.Server, data string, to *kit.Agent, senders []*kit.Agent, before []*kit.Answer) {
	t.Helper()
	again, err := kit.Launch("127.0.0.1:0", data, "--base-url", s.Base)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	to, senders = to.On(again), slices.Clone(senders)
	for i, from := range senders {
		senders[i] = from.On(again)
	}
	inbox := kit.DistinctIDs(t, to.Everything())
	for _, a := range before {
		if !inbox[a.Str("id")] {
			a.Errorf("acknowledged before the backup began, but not in it")
		}
	}
	if len(inbox) < len(before) {
		t.Errorf("%d messages, want at least %d", len(inbox), len(before))
	}
	byConversation := map[string]bool{}
	for _, from := range senders {
		replies := kit.DistinctIDs(t, from.Everything())
		rows := 0
		for _, c := range from.Pages(from.Path("/conversations"), "?limit=100") {
			transcript := from.Pages("/conversations/"+kit.Text(c, "id")+"/messages", "?limit=200")
			rows += len(transcript)
			for i, m := range transcript {
				id := kit.Text(m, "id")
				byConversation[id] = true
				if !inbox[id] && !replies[id] {
					t.Errorf("%s is in a transcript but in no inbox", id)
				}
				if i == 0 && !inbox[id] {
					t.Errorf("a conversation begins with %s, which did not arrive", id)
				}
			}
		}
		if rows == 0 {
			t.Error("a sender has no conversation")
		}
	}
	for id := range inbox {
		if !byConversation[id] {
			t.Errorf("%s is in the inbox but in no conversation", id)
		}
	}
	last := before[len(before)-1]
	to.Get("/messages/"+last.Str("id")).Want(200).Is("encrypted_payload", last.At("encrypted_payload"), "conversation_id", last.At("conversation_id"))
	m := senders[0].Send(to)
	if rows := to.Inbox("?limit=1").Items(); kit.Text(rows[0], "id") != kit.Text(m, "id") {
		t.Errorf("a message sent after the restore is not the newest of the inbox")
	}
	if n := len(to.Everything()); n != len(inbox)+1 {
		t.Errorf("%d messages after a further send, want %d", n, len(inbox)+1)
	}
	if err := again.Drain(10 * time.Second); err != nil {
		t.Error(err)
	}
}
