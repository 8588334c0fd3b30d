package blackbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/cmd/parley/history"
)

// trackedConversation is a conversation in which several clients reply and change the
// status.
type trackedConversation struct {
	root  history.Message
	sides [2]*participant // initiator, responder

	mu     sync.Mutex
	latest []history.Message
}

func (k *trackedConversation) path(rest string) string {
	return "/conversations/" + k.root.Conversation.String() + rest
}

// said records a message that may be replied to.
func (k *trackedConversation) said(m history.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.latest = append(k.latest, m); len(k.latest) > 6 {
		k.latest = k.latest[1:]
	}
}

// question returns an acknowledged message of the conversation.
func (k *trackedConversation) question() *history.Message {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.latest[rand.IntN(len(k.latest))]
	return &m
}

// trackedConversations are the conversations under load; ended ones are still read.
type trackedConversations struct {
	mu   sync.Mutex
	live []*trackedConversation
	all  []*trackedConversation
}

func (t *trackedConversations) add(k *trackedConversation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live, t.all = append(t.live, k), append(t.all, k)
}

func (t *trackedConversations) retire(k *trackedConversation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.live, k)
	if at >= 0 {
		t.live = slices.Delete(t.live, at, at+1)
	}
	return at >= 0
}

func (t *trackedConversations) any(live bool) *trackedConversation {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.all
	if live {
		from = t.live
	}
	if len(from) == 0 {
		return nil
	}
	return from[rand.IntN(len(from))]
}

func (t *trackedConversations) everyone() []*trackedConversation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// begin starts a conversation between two participants.
func (w *recordedServer) begin(from, to *participant) bool {
	out := w.write(attempt{from: from, to: to, key: w.newKey()})
	if out.Outcome == history.Acked {
		k := &trackedConversation{root: out.Result, sides: [2]*participant{from, to}}
		k.said(out.Result)
		w.conversations.add(k)
	}
	return out.Outcome == history.Acked
}

func AnyOf[T any](list []T) T { return list[rand.IntN(len(list))] }

// loadClient is one of the clients that load a server until it dies.
type loadClient struct{ *recordedServer }

// writer sends and replies until the server dies. Sometimes it sends the same request
// twice at once, or gives up before the answer and repeats it.
func (w loadClient) writer(self *participant) {
	for !w.dying.Load() {
		at := attempt{from: self, to: AnyOf(w.popular), key: w.newKey()}
		var k *trackedConversation
		if k = w.conversations.any(true); k != nil && rand.IntN(4) == 0 {
			side := rand.IntN(2)
			at.from, at.to, at.replyTo = k.sides[side], k.sides[1-side], k.question()
		}
		switch rand.IntN(25) {
		case 0:
			Concurrently(2, func(int) history.Send { return w.write(at) })
			continue
		case 1:
			ctx, goAway := context.WithTimeout(context.Background(), time.Duration(rand.IntN(4000))*time.Microsecond)
			w.send(ctx, at)
			goAway()
		}
		out := w.write(at)
		if out.Outcome == history.Acked && at.replyTo != nil {
			k.said(out.Result)
		}
	}
}

// mover changes the status of conversations, concurrently with other movers, and reads
// it.
func (w loadClient) mover() {
	for !w.dying.Load() {
		k := w.conversations.any(true)
		if k == nil {
			if !w.begin(AnyOf(w.senders), AnyOf(w.popular)) {
				return
			}
			continue
		}
		side := rand.IntN(2)
		if rand.IntN(3) == 0 {
			if _, err := w.look(context.Background(), k, k.sides[side]); err != nil {
				return
			}
			continue
		}
		out := w.move(context.Background(), k, k.sides[side], someStatus(side))
		if out.Outcome == history.Unknown {
			return
		}
		ended := out.Outcome == history.Acked && history.Terminal(out.To) || history.Terminal(out.Current)
		if ended && w.conversations.retire(k) && !w.begin(k.sides[0], k.sides[1]) {
			return
		}
	}
}

// someStatus returns a status that a side may request; final ones are rare.
func someStatus(side int) string {
	dice := rand.IntN(100)
	switch {
	case dice < 45:
		return "open"
	case dice < 70:
		return "paused"
	case dice < 93:
		return "input_required"
	}
	ends := []string{"completed", "failed", "canceled", "rejected"}
	return ends[rand.IntN(3+side)] // only a responder rejects
}

// reader reads pages, transcripts and single messages.
func (w loadClient) reader() {
	for !w.dying.Load() {
		k := w.conversations.any(false)
		var err error
		switch dice := rand.IntN(10); {
		case dice < 5 || k == nil:
			_, err = w.page(AnyOf(w.parties()), 1+rand.IntN(30), 1+rand.IntN(4))
		case dice < 7:
			err = w.transcript(k, k.sides[rand.IntN(2)], 1+rand.IntN(100), 2)
		case dice < 9:
			_, err = w.look(context.Background(), k, k.sides[rand.IntN(2)])
		default:
			a := w.ask(context.Background(), k.sides[rand.IntN(2)], "GET", "/messages/"+k.question().ID.String(), nil)
			var m history.Message
			if err = w.decoded(a, &m); err == nil {
				w.h.Saw(m)
			}
		}
		if err != nil {
			return
		}
	}
}

// listener follows a participant's stream over many connections, each resumed after the
// last message received.
type listener struct {
	name string
	of   *participant
	last history.ID
}

// follow makes one connection and records it. It ends after d, when the server dies, or
// when the message until has arrived.
func (l *listener) follow(w *recordedServer, d time.Duration, until history.ID) bool {
	c := history.Connection{Follower: l.name, Agent: l.of.is, After: l.last}
	c.Asked = w.now()
	c.Answered = c.Asked
	st, refusal := l.of.Listen(l.last.String())
	if st == nil {
		if !w.apart.Load() && (refusal.Err == nil || !w.dying.Load()) {
			w.unexpected("the stream of %s was refused: %v %d", l.of.Name, refusal.Err, refusal.Status)
		}
		return false
	}
	defer st.Close()
	deadline := time.After(d)
	for done := false; !done && !c.Caught; {
		select {
		case e, ok := <-st.Events:
			done = !ok
			if ok {
				l.heard(w, &c, e)
			}
			c.Caught = ok && !until.Zero() && l.last == until
		case <-deadline:
			done = true
		}
	}
	w.h.Streamed(c)
	return c.Caught
}

func (l *listener) heard(w *recordedServer, c *history.Connection, e Event) {
	var heard history.Event
	var err error
	switch e.Name {
	case "message":
		heard.Message, err = history.ParseID(e.ID)
		l.last = heard.Message
	case "status":
		heard.Conversation, err = history.ParseID(Text(e.Data, "conversation_id"))
		heard.Status = Text(e.Data, "status")
	case "heartbeat":
		return
	default:
		w.unexpected("the stream of %s says %s: %s", l.of.Name, e.Name, e.Raw)
		return
	}
	if err != nil {
		w.unexpected("the stream of %s says %s %q: %v", l.of.Name, e.Name, e.Raw, err)
	}
	c.Events, c.Answered = append(c.Events, heard), w.now()
}

// listen follows until the server dies and cuts connections at random points.
func (l *listener) listen(w *recordedServer) {
	for !w.dying.Load() {
		l.follow(w, time.Duration(10+rand.IntN(150))*time.Millisecond, history.ID{})
	}
}
