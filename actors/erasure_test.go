package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/seal"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
	rowverify "parley/persistence/verify"
)

// erasable gives a node keys of its own, which can be destroyed.
func erasable(r *testNode) {
	r.keys = &sealtest.Keys{}
	r.sealer = seal.New(r.keys, [32]byte{1})
}

// erase destroys the key of an organization, as the server does.
func (r *testNode) erase(id parley.OrgID) {
	r.keys.Erase(id)
	r.sealer.Forget(id)
	r.node.queries.Forget()
	r.erased.Store(true)
}

// verifyErased verifies a store in which something was erased: its rows, and that nothing
// else is unreadable.
func (r *testNode) verifyErased() (erased uint64) {
	r.t.Helper()
	archive := r.archive().(*sealed.Archive)
	result := &report.Verification{}
	erased, err := archive.Verify(result)
	if err := errors.Join(err, rowverify.Rows(archive.Archive, result), archive.Close()); err != nil {
		r.t.Error(err)
	}
	for _, f := range result.First(20) {
		r.t.Error(f)
	}
	return erased
}

// erasureScene is a node with three organizations: gone is to be erased, the others stay.
type erasureScene struct {
	*testNode
	ctx               context.Context
	gone, kept, third parley.OrgID
	g, k, l           parley.AgentID
}

func newErasure(t testing.TB, journals int, options ...option) *erasureScene {
	r := newTestNode(t, append([]option{withJournals(journals), erasable}, options...)...)
	x := &erasureScene{testNode: r, ctx: context.Background()}
	x.gone, x.kept, x.third = r.org("gone").Org.OrgID(), r.org("kept").Org.OrgID(), r.org("third").Org.OrgID()
	x.g, x.k, x.l = r.agent(x.gone, "g"), r.agent(x.kept, "k"), r.agent(x.third, "l")
	return x
}

// awaitIdle waits until no outbox has a message.
func (x *erasureScene) awaitIdle() {
	x.t.Helper()
	eventually(x.t, "outboxes are empty", func() bool {
		n, archive := 0, x.store.Archive()
		err := archive.Underway(func(journal.Effect) error { n++; return nil })
		return errors.Join(err, archive.Close()) == nil && n == 0
	})
}

// orgOf returns the organization of an agent.
func (x *erasureScene) orgOf(a parley.AgentID) parley.OrgID {
	return map[parley.AgentID]parley.OrgID{x.g: x.gone, x.k: x.kept, x.l: x.third}[a]
}

func (x *erasureScene) content(from, to parley.AgentID, text, key string) Content {
	return Content{Type: "svc.v1.dm", Body: []byte(text), Key: key, FromOrg: x.orgOf(from), ToOrg: x.orgOf(to)}
}

func (x *erasureScene) directSend(from, to parley.AgentID, text, key string) DirectSend {
	return DirectSend{Content: x.content(from, to, text, key), From: from, To: to, ToKnown: true}
}

func (x *erasureScene) say(from, to parley.AgentID, text string) *record.Message {
	x.t.Helper()
	return must(x.send(x.directSend(from, to, text, "")))(x.t).Message
}

func (x *erasureScene) answer(m *record.Message, text, key string) (Posted, error) {
	return x.reply(ReplyTo{
		Content: x.content(m.Recipient(), m.Sender(), text, key), Conversation: m.Conversation(), Host: m.HostID(),
		From: m.Recipient(), To: m.Sender(), Original: m.MessageID(), Copy: m.Copied(),
	})
}

// isGone expects that something was erased.
func isGone(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, journal.ErrErased) || !errors.Is(err, parley.ErrGone) {
		t.Errorf("%s: %v, want %v", what, err, journal.ErrErased)
	}
}

func bodies(page []query.Message) (all []string) {
	for _, m := range page {
		all = append(all, string(m.Record.GetContent()))
	}
	return all
}

func expectTexts(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// entriesOf returns the messages of feed entries as Feeds.Entries and Feeds.Backlog give them.
func (x *erasureScene) entriesOf(of parley.AgentID) (entries, backlog []string) {
	x.t.Helper()
	v := x.contents.View()
	defer v.Close()
	var all []journal.FeedEntry
	if err := v.Feed(of, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		e.Note = bytes.Clone(e.Note)
		all = append(all, e)
		return true
	}); err != nil {
		x.t.Fatal(err)
	}
	err := x.node.Feeds.Entries(x.ctx, of, all, func(_ journal.FeedEntry, m query.Message) error {
		entries = append(entries, string(m.Record.GetContent()))
		return nil
	})
	upTo := all[len(all)-1].Position
	for from := uint64(0); from < upTo && err == nil; {
		from, err = x.node.Feeds.Backlog(x.ctx, of, from, upTo, 2, 1<<20, func(_ journal.FeedEntry, m query.Message) error {
			backlog = append(backlog, string(m.Record.GetContent()))
			return nil
		})
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return entries, backlog
}

// Each list of an agent leaves the messages of an erased organization out, in whatever
// order they came, and keeps all others.
func TestErasedMessagesAreLeftOut(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			x := newErasure(t, journals)
			var erased []*record.Message
			for i := range 3 { // before, between and after the others
				for n := range 4 {
					erased = append(erased, x.say(x.g, x.k, fmt.Sprintf("erased %d%d", i, n)))
				}
				if i < 2 {
					x.say(x.l, x.k, fmt.Sprint("kept ", i))
				}
			}
			outgoing := x.say(x.k, x.g, "to the erased")
			x.awaitIdle()
			expectTexts(t, "control: the inbox", bodies(x.inbox(x.k)[:2]), "erased 23", "erased 22")
			x.erase(x.gone)

			for _, limit := range []int{1, 2, 100} {
				for _, only := range []string{"", "svc.v1.dm"} {
					var all []string
					for before := uint64(0); ; {
						page, next, err := x.node.Messages.Inbox(x.ctx, x.k, before, limit, only, nil)
						if err != nil {
							t.Fatal(err)
						}
						if all = append(all, bodies(page)...); next == 0 {
							break
						}
						before = next
					}
					expectTexts(t, fmt.Sprint("inbox of type ", only), all, "kept 1", "kept 0")
				}
				place, waited := x.node.Feeds.After(x.k, 0), []string{}
				for range 20 {
					w, _, err := place.Look(x.ctx, limit, nil)
					if err != nil {
						t.Fatal(err)
					}
					waited = append(waited, contents(w)...)
				}
				expectTexts(t, "newer than the first", waited, "kept 0", "kept 1")
				place, waited = x.node.Feeds.Untransferred(x.k), []string{}
				for range 20 {
					w, _, err := place.Look(x.ctx, limit, nil)
					if err != nil {
						t.Fatal(err)
					}
					waited = append(waited, contents(w)...)
				}
				expectTexts(t, "untransferred", waited, "kept 0", "kept 1")
			}
			entries, backlog := x.entriesOf(x.k)
			expectTexts(t, "entries", entries, "kept 0", "kept 1")
			expectTexts(t, "backlog", backlog, "kept 0", "kept 1")
			x.checkIDs(erased, outgoing)
			x.checkListing()
		})
	}
}

// checkIDs asks for erased messages by their ids.
func (x *erasureScene) checkIDs(erased []*record.Message, outgoing *record.Message) {
	t := x.t
	t.Helper()
	for i, m := range append(slices.Clone(erased), outgoing) {
		id, to := m.MessageID(), m.Recipient()
		_, err := x.node.Messages.Get(x.ctx, id)
		isGone(t, "by id", err)
		_, err = x.node.Messages.GetFor(x.ctx, to.Slot(), id)
		isGone(t, "by id at the recipient's home", err)
		_, err = x.node.Messages.GetRecord(x.ctx, to.Slot(), id)
		isGone(t, "record", err)
		_, _, err = x.node.Messages.Transcript(x.ctx, m.Conversation(), 0, 10, i%2 == 0, nil)
		isGone(t, "transcript", err)
		_, err = x.node.Messages.Conversation(x.ctx, m.Conversation())
		isGone(t, "conversation", err)
		_, _, err = x.node.Messages.ReplyAfter(x.ctx, m.Conversation(), id, m.Sender())
		if err != nil {
			isGone(t, "reply", err)
		}
		position, err := x.node.Messages.PositionIn(x.ctx, to, id)
		if err != nil || position == 0 {
			t.Errorf("the position of an erased message: %d, %v", position, err)
		}
		start, err := x.node.Feeds.Resume(x.ctx, to, id, true)
		if err != nil || start.After != position || start.Gap || start.Last != id {
			t.Errorf("resumed after an erased message: %+v, %v", start, err)
		}
	}
	start, err := x.node.Feeds.Resume(x.ctx, x.k, parley.MessageID{}, false)
	if first := must(x.node.Messages.PositionIn(x.ctx, x.k, erased[0].MessageID()))(t); err != nil || start.After >= first {
		t.Errorf("a new stream begins at %+v, %v", start, err)
	}
}

// checkListing lists the conversations of an agent in pages.
func (x *erasureScene) checkListing() {
	x.t.Helper()
	for _, limit := range []int{1, 3, 100} {
		listed, before := 0, uint64(0)
		for {
			page, next, err := x.node.Messages.Conversations(x.ctx, x.k, before, limit)
			if err != nil {
				x.t.Fatal(err)
			}
			if listed += len(page); next == 0 {
				break
			}
			before = next
		}
		if listed != 2 {
			x.t.Errorf("%d conversations are listed, want 2", listed)
		}
	}
}

// What an erased organization takes part in is refused with 410, and nothing is stored:
// messages to it and from it, and repeats of requests whose message is gone.
func TestErasedTakesNoPart(t *testing.T) {
	x := newErasure(t, 4)
	first := must(x.send(x.directSend(x.g, x.k, "first", "from")))(t).Message
	repeat := x.directSend(x.k, x.g, "second", "to")
	second := must(x.send(repeat))(t).Message
	answered := must(x.answer(first, "answer", "answered"))(t).Message
	x.awaitIdle()
	awaitKeyLog(t, x.node, x.g, x.k, x.l) // it adds rows of its own
	x.erase(x.gone)
	for name, f := range map[string]func() (Posted, error){
		"a repeat":              func() (Posted, error) { return x.send(repeat) },
		"a repeated reply":      func() (Posted, error) { return x.answer(first, "answer", "answered") },
		"a repeat of its own":   func() (Posted, error) { return x.send(x.directSend(x.g, x.k, "first", "from")) },
		"a send to it":          func() (Posted, error) { return x.send(x.directSend(x.k, x.g, "more", "")) },
		"a send with a key":     func() (Posted, error) { return x.send(x.directSend(x.k, x.g, "more", "new")) },
		"a send from it":        func() (Posted, error) { return x.send(x.directSend(x.g, x.k, "more", "")) },
		"a reply to it":         func() (Posted, error) { return x.answer(first, "more", "") },
		"a reply from it":       func() (Posted, error) { return x.answer(second, "more", "") },
		"a reply to its answer": func() (Posted, error) { return x.answer(answered, "more", "") },
	} {
		for range 2 {
			stored := x.pairs()
			_, err := f()
			isGone(t, name, err)
			x.awaitIdle()
			if now := x.pairs(); now != stored {
				t.Errorf("%s: %d rows are stored, %d before", name, now, stored)
			}
		}
	}
	x.say(x.l, x.k, "still there")
	x.say(x.k, x.l, "and sends")
	if all := x.inbox(x.k); len(all) != 1 || string(all[0].Record.GetContent()) != "still there" {
		t.Errorf("the inbox has %q", bodies(all))
	}
	if n := x.verifyErased(); n < 6 {
		t.Errorf("%d contents were erased", n)
	}
	x.restart()
	_, err := x.send(x.directSend(x.g, x.k, "more", ""))
	isGone(t, "after a restart", err)
	x.say(x.l, x.k, "after a restart")
}

// pairs returns how many contents are stored: events, states, records, rows and feed
// entries.
func (x *erasureScene) pairs() (n int) {
	x.t.Helper()
	archive := x.store.Archive()
	err := archive.Pairs(func(key, _ []byte) error {
		if bytes.IndexByte([]byte("ESBFNRCM"), key[2]) >= 0 {
			n++
		}
		return nil
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// An erased actor is passivated and activated again by each request, and no more often.
func TestErasedActors(t *testing.T) {
	x := newErasure(t, 1)
	x.say(x.g, x.k, "loads the actor")
	x.awaitIdle()
	x.erase(x.gone)
	x.restart()
	began := x.node.engine.Stats().Activations
	for range 5 {
		_, err := x.send(x.directSend(x.g, x.k, "more", ""))
		isGone(t, "a send", err)
	}
	enqueueMessages(t, x.store, rules.OrgStream(x.gone), must((&record.SagaMessage{Kind: record.SagaMessage_settled, Group: make([]byte, 16), Request: make([]byte, 16)}).MarshalVT())(t))
	x.awaitIdle()
	x.node.engine.Sweep()
	x.restart() // the journal wakes the actor with a queued message
	x.say(x.l, x.k, "others work")
	if now := x.node.engine.Stats().Activations; now > began+10 {
		t.Errorf("%d activations", now)
	}
}
