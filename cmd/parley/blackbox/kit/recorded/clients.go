package recorded

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/history"
)

// TrackedConversation is a conversation in which several clients reply and change the
// status.
type TrackedConversation struct {
	root  history.Message
	Sides [2]*Participant // initiator, responder

	mu     sync.Mutex
	latest []history.Message
}

func (k *TrackedConversation) path(rest string) string {
	return "/conversations/" + k.root.Conversation.String() + rest
}

// Add records a message that may be replied to.
func (k *TrackedConversation) Add(m history.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.latest = append(k.latest, m); len(k.latest) > 6 {
		k.latest = k.latest[1:]
	}
}

// AnyMessage returns an acknowledged message of the conversation.
func (k *TrackedConversation) AnyMessage() *history.Message {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.latest[rand.IntN(len(k.latest))]
	return &m
}

// TrackedConversations are the conversations under load; ended ones are still read.
type TrackedConversations struct {
	mu   sync.Mutex
	live []*TrackedConversation
	All  []*TrackedConversation
}

func (t *TrackedConversations) add(k *TrackedConversation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live, t.All = append(t.live, k), append(t.All, k)
}

func (t *TrackedConversations) retire(k *TrackedConversation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.live, k)
	if at >= 0 {
		t.live = slices.Delete(t.live, at, at+1)
	}
	return at >= 0
}

func (t *TrackedConversations) any(live bool) *TrackedConversation {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.All
	if live {
		from = t.live
	}
	if len(from) == 0 {
		return nil
	}
	return from[rand.IntN(len(from))]
}

func (t *TrackedConversations) everyone() []*TrackedConversation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.All)
}

// Begin starts a conversation between two participants.
func (w *Server) Begin(from, to *Participant) bool {
	out := w.Write(Attempt{From: from, To: to, Key: w.NewKey()})
	if out.Outcome == history.Acked {
		k := &TrackedConversation{root: out.Result, Sides: [2]*Participant{from, to}}
		k.Add(out.Result)
		w.Conversations.add(k)
	}
	return out.Outcome == history.Acked
}

// loadClient is one of the clients that load a server until it dies.
type loadClient struct{ *Server }

// writer sends and replies until the server dies. Sometimes it sends the same request
// twice at once, or gives up before the answer and repeats it.
func (w loadClient) writer(self *Participant) {
	for !w.Dying.Load() {
		at := Attempt{From: self, To: kit.AnyOf(w.Popular), Key: w.NewKey()}
		var k *TrackedConversation
		if k = w.Conversations.any(true); k != nil && rand.IntN(4) == 0 {
			side := rand.IntN(2)
			at.From, at.To, at.ReplyTo = k.Sides[side], k.Sides[1-side], k.AnyMessage()
		}
		switch rand.IntN(25) {
		case 0:
			kit.Concurrently(2, func(int) history.Send { return w.Write(at) })
			continue
		case 1:
			ctx, goAway := context.WithTimeout(context.Background(), time.Duration(rand.IntN(4000))*time.Microsecond)
			w.Send(ctx, at)
			goAway()
		}
		out := w.Write(at)
		if out.Outcome == history.Acked && at.ReplyTo != nil {
			k.Add(out.Result)
		}
	}
}

// mover changes the status of conversations, concurrently with other movers, and reads
// it.
func (w loadClient) mover() {
	for !w.Dying.Load() {
		k := w.Conversations.any(true)
		if k == nil {
			if !w.Begin(kit.AnyOf(w.Senders), kit.AnyOf(w.Popular)) {
				return
			}
			continue
		}
		side := rand.IntN(2)
		if rand.IntN(3) == 0 {
			if _, err := w.Look(context.Background(), k, k.Sides[side]); err != nil {
				return
			}
			continue
		}
		out := w.Move(context.Background(), k, k.Sides[side], SomeStatus(side))
		if out.Outcome == history.Unknown {
			return
		}
		ended := out.Outcome == history.Acked && history.Terminal(out.To) || history.Terminal(out.Current)
		if ended && w.Conversations.retire(k) && !w.Begin(k.Sides[0], k.Sides[1]) {
			return
		}
	}
}

// SomeStatus returns a status that a side may request; final ones are rare.
func SomeStatus(side int) string {
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
	for !w.Dying.Load() {
		k := w.Conversations.any(false)
		var err error
		switch dice := rand.IntN(10); {
		case dice < 5 || k == nil:
			_, err = w.Page(kit.AnyOf(w.Parties()), 1+rand.IntN(30), 1+rand.IntN(4))
		case dice < 7:
			err = w.transcript(k, k.Sides[rand.IntN(2)], 1+rand.IntN(100), 2)
		case dice < 9:
			_, err = w.Look(context.Background(), k, k.Sides[rand.IntN(2)])
		default:
			a := w.Ask(context.Background(), k.Sides[rand.IntN(2)], "GET", "/messages/"+k.AnyMessage().ID.String(), nil)
			var m history.Message
			if err = w.decoded(a, &m); err == nil {
				w.H.Saw(m)
			}
		}
		if err != nil {
			return
		}
	}
}

// Listener follows a participant's stream over many connections, each resumed after the
// last message received.
type Listener struct {
	name string
	of   *Participant
	last history.ID
}

// follow makes one connection and records it. It ends after d, when the server dies, or
// when the message until has arrived.
func (l *Listener) follow(w *Server, d time.Duration, until history.ID) bool {
	c := history.Connection{Follower: l.name, Agent: l.of.is, After: l.last}
	c.Asked = w.Now()
	c.Answered = c.Asked
	st, refusal := l.of.Listen(l.last.String())
	if st == nil {
		if !w.Apart.Load() && (refusal.Err == nil || !w.Dying.Load()) {
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
	w.H.Streamed(c)
	return c.Caught
}

func (l *Listener) heard(w *Server, c *history.Connection, e kit.Event) {
	var heard history.Event
	var err error
	switch e.Name {
	case "message":
		heard.Message, err = history.ParseID(e.ID)
		l.last = heard.Message
	case "status":
		heard.Conversation, err = history.ParseID(kit.Text(e.Data, "conversation_id"))
		heard.Status = kit.Text(e.Data, "status")
	case "heartbeat":
		return
	default:
		w.unexpected("the stream of %s says %s: %s", l.of.Name, e.Name, e.Raw)
		return
	}
	if err != nil {
		w.unexpected("the stream of %s says %s %q: %v", l.of.Name, e.Name, e.Raw, err)
	}
	c.Events, c.Answered = append(c.Events, heard), w.Now()
}

// listen follows until the server dies and cuts connections at random points.
func (l *Listener) listen(w *Server) {
	for !w.Dying.Load() {
		l.follow(w, time.Duration(10+rand.IntN(150))*time.Millisecond, history.ID{})
	}
}
