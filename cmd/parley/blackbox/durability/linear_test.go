package durability

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
	"parley/cmd/parley/history"
)

// recorder collects the operations on one conversation or inbox.
type recorder struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (r *recorder) add(client int, span history.Span, input, output any, unknown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op(client, span, input, output, -1, unknown)) // died sets the end
}

// died ends the operations that are still unknown at the given time.
func (r *recorder) died(at time.Duration) {
	for i := range r.ops {
		if r.ops[i].Return < 0 {
			r.ops[i].Return = int64(at)
		}
	}
}

// inLives runs clients. If the server is to be killed, it does so during their requests,
// restarts it and runs them again. Nodes are struck while clients go on.
func inLives(w *recorded.Server, recorders []*recorder, run func()) {
	if w.Direct != nil {
		throughStrike(w, run)
	}
	if w.Mortal {
		done := make(chan struct{})
		w.Dying.Store(false)
		go func() {
			defer close(done)
			run()
		}()
		time.Sleep(time.Duration(60+rand.IntN(60)) * time.Millisecond)
		w.Dying.Store(true)
		w.S.Kill()
		dead := w.Now()
		<-done
		for _, r := range recorders {
			r.died(dead)
		}
		restarted(w)
	}
	run()
	for _, r := range recorders {
		r.died(never)
	}
}

// impatient returns a context that sometimes expires before the answer. Nodes that are struck
// leave enough outcomes unknown, and each makes a history harder to judge.
func impatient(w *recorded.Server) (context.Context, context.CancelFunc) {
	if w.Apart.Load() || rand.IntN(25) > 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), time.Duration(rand.IntN(2000))*time.Microsecond)
}

// linearly runs a test on servers with one journal and with four, once without and once
// with a kill in the middle, and on three nodes that are struck in turn.
func linearly(t *testing.T, test func(t *testing.T, w *recorded.Server)) {
	for _, v := range kit.Variants {
		for _, kill := range []bool{false, true} {
			name := "journals=" + v.Journals
			if kill {
				name += ",killed"
			}
			t.Run(name, func(t *testing.T) {
				w := recorded.NewServer(t, kit.Start(t, "--journals", v.Journals), 2, 4)
				w.Mortal = kill
				test(t, w)
			})
		}
	}
	t.Run("3 nodes", func(t *testing.T) {
		n := kit.StartNodes(t, 3)
		w := recorded.NewServer(t, n.Server(), 2, 4)
		w.Direct = n
		test(t, w)
	})
}

// TestStatusIsLinearizable: the status of a conversation is a linearizable
// register that follows the transition table, under concurrent requests and lost answers.
func TestStatusIsLinearizable(t *testing.T) {
	const conversations, clients, each, rounds = 6, 4, 20, 4
	linearly(t, func(t *testing.T, w *recorded.Server) {
		ops, winners := 0, 0
		for range rounds {
			var recorders []*recorder
			for range conversations {
				w.Begin(kit.AnyOf(w.Senders), kit.AnyOf(w.Popular))
				recorders = append(recorders, &recorder{})
			}
			latest := w.Conversations.All[len(w.Conversations.All)-conversations:]
			inLives(w, recorders, func() {
				kit.Concurrently(conversations*clients, func(i int) bool {
					return operate(w, latest[i/clients], i%clients, each, recorders[i/clients])
				})
			})
			for _, r := range recorders {
				ops += len(r.ops)
				if got := linearStatus(r.ops); got != porcupine.Ok {
					t.Fatalf("%s: no order explains these answers:\n%s", got, shown(r.ops))
				}
			}
			winners += flagsStatus(t, recorders)
		}
		t.Logf("%d operations on %d conversations; %d second winners were planted and found", ops, conversations*rounds, winners)
		if winners == 0 && w.Direct == nil {
			t.Error("no second winner could be planted")
		}
	})
}

// operate makes n requests on one conversation, or fewer if the server dies.
func operate(w *recorded.Server, k *recorded.TrackedConversation, client, n int, r *recorder) bool {
	side := client % 2
	for i := 0; goesOn(w, i, n); i++ {
		ctx, cancel := impatient(w)
		switch dice := rand.IntN(10); {
		case dice < 4:
			if look, err := w.Look(ctx, k, k.Sides[side]); err == nil {
				r.add(client, look.Span, statusRequest{kind: "look"}, statusAnswer{history.Acked, look.Status}, false)
			}
		case dice < 9:
			out := w.Move(ctx, k, k.Sides[side], recorded.SomeStatus(side))
			if overloaded := out.Outcome == history.Refused && out.Current == ""; !overloaded {
				r.add(client, out.Span, statusRequest{"move", out.To}, statusAnswer{out.Outcome, out.Current}, out.Outcome == history.Unknown)
			}
		default:
			out := w.Send(ctx, recorded.Attempt{From: k.Sides[side], To: k.Sides[1-side], Key: w.NewKey(), ReplyTo: k.AnyMessage()})
			if out.Refusal != "overloaded" {
				r.add(client, out.Span, statusRequest{kind: "reply"}, statusAnswer{outcome: out.Outcome}, out.Outcome == history.Unknown)
			}
		}
		cancel()
	}
	return true
}

// flagsStatus plants faults in the recorded history: no order may explain them. It
// returns how often it planted a second winner, which requires a first.
func flagsStatus(t *testing.T, recorders []*recorder) int {
	t.Helper()
	looks, winners := 0, 0
	for _, r := range recorders {
		moved, reached := never, map[string]bool{} // the time from which it was certainly no longer submitted
		for _, o := range r.ops {
			if asked := o.Input.(statusRequest); asked.kind == "move" && o.Output.(statusAnswer).outcome == history.Acked {
				moved = min(moved, int(o.Return))
				reached[asked.to] = true
			}
		}
		stale := altered(r.ops, func(o porcupine.Operation) bool {
			return o.Input.(statusRequest).kind == "look" && int(o.Call) > moved
		}, func(o *porcupine.Operation) { o.Output = statusAnswer{history.Acked, history.Submitted} })
		two := altered(r.ops, func(o porcupine.Operation) bool {
			asked, told := o.Input.(statusRequest), o.Output.(statusAnswer)
			return told.outcome == history.Refused && history.Terminal(told.current) && reached[told.current] && history.Terminal(asked.to)
		}, func(o *porcupine.Operation) { o.Output = statusAnswer{outcome: history.Acked} })
		looks += refused(t, "a stale look", linearStatus, stale)
		if undecided(r.ops) <= 3 { // with more it takes minutes to try all orders
			winners += refused(t, "two winners", linearStatus, two)
		}
	}
	if looks == 0 {
		t.Error("no stale look could be planted")
	}
	return winners
}

// undecided counts the operations that may take effect at any time.
func undecided(ops []porcupine.Operation) (n int) {
	for _, o := range ops {
		if o.Return == never {
			n++
		}
	}
	return n
}

// refused expects a history not to be linearizable, if the fault could be planted.
func refused(t *testing.T, what string, judge func([]porcupine.Operation) porcupine.CheckResult, ops []porcupine.Operation) int {
	t.Helper()
	if ops == nil {
		return 0
	}
	if got := judge(ops); got != porcupine.Illegal {
		t.Errorf("%s: %s:\n%s", what, got, shown(ops))
	}
	return 1
}

// TestInboxIsLinearizable: an inbox is a log to which each key is appended once and which
// reads return whole.
func TestInboxIsLinearizable(t *testing.T) {
	const boxes, appenders, readers, each, rounds = 3, 4, 2, 15, 3
	linearly(t, func(t *testing.T, w *recorded.Server) {
		ops, lost, stale, swapped := 0, 0, 0, 0
		for range rounds {
			var to []*recorded.Participant
			var recorders []*recorder
			for range boxes {
				to, recorders = append(to, recorded.NewParticipant(w.S.Org(t), "box")), append(recorders, &recorder{})
			}
			again := make([]*recorded.Attempt, boxes*(appenders+readers))
			inLives(w, recorders, func() {
				kit.Concurrently(len(again), func(i int) bool {
					box, client := i%boxes, i/boxes
					if client < appenders {
						appendTo(w, w.Senders[client], to[box], client, each, recorders[box], &again[i])
					} else {
						listInbox(w, to[box], client, each, recorders[box])
					}
					return true
				})
			})
			for i, r := range recorders {
				if !w.Whole(to[i]) {
					t.Fatal("the inbox cannot be read")
				}
				listInbox(w, to[i], appenders+readers, 1, r)
				ops += len(r.ops)
				if got := linearLog(r.ops); got != porcupine.Ok {
					t.Fatalf("%s: no order explains these answers:\n%s", got, shown(r.ops))
				}
				l, s, o := flagsLog(t, r)
				lost, stale, swapped = lost+l, stale+s, swapped+o
			}
		}
		t.Logf("%d operations on %d inboxes; planted and found: %d losses, %d stale reads, %d other orders", ops, boxes*rounds, lost, stale, swapped)
		if lost == 0 || stale == 0 || swapped == 0 {
			t.Error("some fault could not be planted")
		}
	})
}

// appendTo sends n messages to an inbox, or fewer if the server dies. After a restart it
// repeats a send with unknown outcome with the same key.
func appendTo(w *recorded.Server, from, to *recorded.Participant, client, n int, r *recorder, again **recorded.Attempt) {
	for i := 0; goesOn(w, i, n); i++ {
		at := *again
		ctx, cancel := context.Background(), func() {}
		if at == nil {
			at = &recorded.Attempt{From: from, To: to, Key: w.NewKey()}
			ctx, cancel = impatient(w)
		}
		out := w.Send(ctx, *at)
		cancel()
		if out.Outcome == history.Refused {
			continue // overloaded: nothing was done
		}
		unknown := out.Outcome == history.Unknown
		*again = nil
		if unknown {
			*again = at
		}
		r.add(client, out.Span, logRequest{append: at.Key}, logAnswer{unknown: unknown}, unknown)
	}
}

// listInbox reads the whole inbox n times, or fewer if the server dies.
func listInbox(w *recorded.Server, p *recorded.Participant, client, n int, r *recorder) {
	for i := 0; goesOn(w, i, n); i++ {
		page, err := w.Page(p, 20+rand.IntN(80), 1000)
		if err != nil {
			continue
		}
		var keys strings.Builder
		for _, m := range slices.Backward(page.Rows) {
			payload, _ := base64.RawURLEncoding.DecodeString(m.Payload)
			keys.WriteString(strings.TrimPrefix(string(payload), recorded.PayloadOf) + " ")
		}
		r.add(client, page.Span, logRequest{}, logAnswer{keys: keys.String()}, false)
	}
}

// flagsLog plants faults in the recorded history, one for each of some messages: no order
// may explain them. It returns how many it planted of each kind.
func flagsLog(t *testing.T, r *recorder) (lost, stale, swapped int) {
	t.Helper()
	last := lastReading(r.ops)
	keys := strings.Fields(last.Output.(logAnswer).keys)
	sent := map[string]porcupine.Operation{} // those certainly stored when the last read began
	for _, o := range oneAppendEach(r.ops, last) {
		if key := o.Input.(logRequest).append; key != "" && o.Return < last.Call-1 {
			sent[key] = o
		}
	}
	isLast := func(o porcupine.Operation) bool { return o.Input == logRequest{} && o.Call == last.Call }
	says := func(keys []string) func(*porcupine.Operation) {
		return func(o *porcupine.Operation) { o.Output = logAnswer{keys: strings.Join(keys, " ") + " "} }
	}
	first := slices.IndexFunc(keys, func(key string) bool { return sent[key].Input != nil })
	for i := len(keys) - 1; i > first && first >= 0 && lost < 2; i-- {
		second, ok := sent[keys[i]]
		if !ok {
			continue
		}
		gone := slices.Clone(r.ops)
		for n, o := range gone {
			if (o.Input == logRequest{}) {
				gone[n].Output = logAnswer{keys: strings.ReplaceAll(" "+o.Output.(logAnswer).keys, " "+keys[i]+" ", " ")[1:]}
			}
		}
		lost += refused(t, "a lost append", linearLog, gone)
		stale += refused(t, "a stale reading", linearLog, altered(r.ops, isLast, says(slices.Delete(slices.Clone(keys), i, i+1))))
		if sent[keys[first]].Return < second.Call {
			other := slices.Clone(keys)
			other[first], other[i] = other[i], other[first]
			swapped += refused(t, "another order", linearLog, altered(r.ops, isLast, says(other)))
		}
	}
	return lost, stale, swapped
}
