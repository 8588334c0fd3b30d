package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// passivateAtOnce passivates actors as soon as they are idle, and counts activations.
func passivateAtOnce(activations *atomic.Int64) []option {
	return []option{
		withTuning(func(n *Node) { n.engine.IdleFor = time.Nanosecond }),
		withWrap(func(j journal.Journal) journal.Journal {
			return journal.Of(&activationCounter{Journal: j, activations: activations})
		}),
	}
}

type activationCounter struct {
	journal.Journal
	activations *atomic.Int64
}

func (c *activationCounter) Append(e *journal.Entry) {
	if e.Activate {
		c.activations.Add(1)
	}
	c.Journal.Append(e)
}

// passivateRepeatedly passivates idle actors until stop is called.
func (r *testNode) passivateRepeatedly() (stop func()) {
	done, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-done:
				return
			default:
				r.node.engine.Sweep()
			}
		}
	}()
	return func() { close(done); <-swept }
}

// TestPassivationLosesNothing passivates actors thousands of times while 64
// callers send. Every acknowledged message exists once, and no other exists.
func TestPassivationLosesNothing(t *testing.T) {
	const callers, conversations = 64, 200
	wanted := int64(4_000)
	switch {
	case *exhaustive:
		wanted = 20_000
	case testing.Short():
		wanted = 1_000
	}
	var activations atomic.Int64
	r := newTestNode(t, passivateAtOnce(&activations)...)
	owner, ids := r.agents("acme", 100)
	firsts := make([]*record.Message, conversations)
	for i := range firsts {
		firsts[i] = must(r.send(direct(owner, ids[i%100], ids[(i+1)%100], fmt.Sprintf("first %d", i), "")))(t).Message
	}
	stop := r.passivateRepeatedly()
	var mu sync.Mutex
	said := map[parley.ConversationID]map[string]parley.MessageID{}
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 7))
			for turn := 0; activations.Load() < wanted; turn++ {
				first := firsts[random.IntN(conversations)]
				text := fmt.Sprintf("caller %d turn %d", caller, turn)
				p, err := r.reply(answerTo(owner, first, text, ""))
				if err != nil {
					t.Errorf("reply: %v", err)
					return
				}
				mu.Lock()
				if said[first.Conversation()] == nil {
					said[first.Conversation()] = map[string]parley.MessageID{}
				}
				said[first.Conversation()][text] = p.Message.MessageID()
				mu.Unlock()
				// A refusal is an answer, too, and comes only once.
				if _, err := r.node.Messages.ChangeStatus(context.Background(), ChangeStatus{
					Conversation: first.Conversation(), By: []parley.AgentID{first.Sender()}, Status: "submitted",
				}); !errors.Is(err, parley.Refuse(parley.Conflict, "invalid_transition", "")) {
					t.Errorf("status: %v", err)
					return
				}
			}
		})
	}
	calling.Wait()
	stop()
	for _, first := range firsts {
		checkTranscript(t, r, first, said[first.Conversation()])
	}
	t.Logf("%d activations", activations.Load())
}

// checkTranscript compares a transcript with the acknowledged messages: the first
// message, then each other one once, ids ascending.
func checkTranscript(t *testing.T, r *testNode, first *record.Message, said map[string]parley.MessageID) {
	t.Helper()
	list := r.transcript(first.Conversation())
	if len(list) != len(said)+1 {
		t.Fatalf("the transcript has %d messages, %d were acknowledged", len(list)-1, len(said))
	}
	last := first.MessageID()
	for i, m := range list {
		id := m.Record.MessageID()
		if i == 0 && id != last || i > 0 && (said[string(m.Record.Content)] != id || string(id[:]) <= string(last[:])) {
			t.Fatalf("message %d of the transcript is %s %q", i, id, m.Record.Content)
		}
		delete(said, string(m.Record.Content))
		last = id
	}
	v := r.contents.View()
	defer v.Close()
	next := uint64(1)
	if err := v.Events(rules.ConversationStream(first.Conversation()), 1, false, func(seq uint64, _ int64, _ journal.StoredEvent) bool {
		if seq != next {
			t.Errorf("event %d where %d should be", seq, next)
		}
		next++
		return true
	}); err != nil {
		t.Fatal(err)
	}
}
