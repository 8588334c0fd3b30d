package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"parley/actors"
)

// tell sends the recipient a message without HTTP.
func (h *wired) tell() {
	_, err := h.node.Messages.Send(context.Background(), actors.DirectSend{
		Content: actors.Content{Type: "svc.v1.dm", Body: h.body(), FromOrg: h.owner, ToOrg: h.owner},
		From:    h.from, To: h.to, ToKnown: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// pushes opens streams of the recipient. It returns an operation that sends the
// recipient a message and waits until all streams have written it.
func (h *wired) pushes(streams int) (e *receiver, operation func()) {
	e = newReceiver(true)
	for range streams {
		w := newWire(e)
		h.stream(w, w)
	}
	want := int64(0)
	return e, func() {
		h.tell()
		for want += int64(streams); e.events.Load() < want; {
			<-e.said
		}
	}
}

// marked waits until the written events are marked as transferred.
func marked() { time.Sleep(10 * time.Millisecond) }

// pushStreams is the number of streams that a pushed event goes to. With so many, the
// cost of the send, which is subtracted, does not matter.
const pushStreams = 32

// costOfAPush returns the cost of one event on one stream without the send, and the
// number of writes per event.
func costOfAPush(t *testing.T, careless func([]byte)) (each cost, writes float64) {
	alone, followed := wireHarness(t, 1), wireHarness(t, 1)
	defer alone.close()
	defer followed.close()
	_, send := alone.pushes(0)
	without := costOf(12, 3, send, marked)
	e, push := followed.pushes(pushStreams)
	e.careless = careless
	opened := e.writes.Load()
	with := costOf(12, 3, push, marked)
	each = cost{(with.allocs - without.allocs) / pushStreams, (with.bytes - without.bytes) / pushStreams}
	return each, float64(e.writes.Load()-opened) / float64(e.events.Load())
}

// pushBound was set when an event on a live stream took 6.8 allocations and 2,090
// bytes, including rendering and receipts.
var pushBound = cost{9, 2700}

func TestCostOfAPush(t *testing.T) {
	skipUnderRace(t)
	got, writes := costOfAPush(t, nil)
	if t.Logf("%.1f allocations, %.0f bytes", got.allocs, got.bytes); !got.within(pushBound) {
		t.Errorf("an event on a stream costs %+v, at most %+v is allowed", got, pushBound)
	}
	if writes != 1 {
		t.Errorf("an event takes %.2f writes", writes)
	}
}

// TestCostOfAPushControl: each event is decoded once more when it is written.
func TestCostOfAPushControl(t *testing.T) {
	skipUnderRace(t)
	got, _ := costOfAPush(t, func(p []byte) {
		var again map[string]any
		if _, data, ok := bytes.Cut(p, []byte("data: ")); !ok || json.Unmarshal(data, &again) != nil {
			t.Errorf("not an event: %s", p)
		}
	})
	if got.within(pushBound) {
		t.Errorf("a wasteful stream costs %+v and is within %+v", got, pushBound)
	}
}

// queued lists numbers of events that wait for a delayed write, and the writes allowed
// for them: the delayed one, and then as few as the buffer allows. The first events
// arrive live. The second are more than a subscription keeps, and are read from rows.
var queued = []struct{ events, writes int }{{40, 4}, {200, 12}}

// writesOf queues events behind a delayed write and counts the writes that carry them.
// dress returns the connection that the server uses.
func writesOf(t *testing.T, events int, dress func(*wire) net.Conn) int {
	h := wireHarness(t, 1)
	defer h.close()
	w := newWire(newReceiver(true))
	h.stream(w, dress(w))
	open := w.hold()
	before := w.receiver.writes.Load()
	for range events {
		h.tell()
	}
	open()
	for until := time.Now().Add(10 * time.Second); w.receiver.events.Load() < int64(events); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after ten seconds %d of %d events have arrived", w.receiver.events.Load(), events)
		}
	}
	return int(w.receiver.writes.Load() - before)
}

func TestQueuedEventsLeaveTogether(t *testing.T) {
	for _, c := range queued {
		t.Run(fmt.Sprint(c.events, " events"), func(t *testing.T) {
			got := writesOf(t, c.events, undressed)
			if t.Logf("%d writes", got); got > c.writes {
				t.Errorf("%d events take %d writes, at most %d are allowed", c.events, got, c.writes)
			}
		})
	}
}

func TestQueuedEventsLeaveTogetherControl(t *testing.T) {
	for _, c := range queued {
		if got := writesOf(t, c.events, func(w *wire) net.Conn { return splitConn{w, "\n\n"} }); got <= c.writes {
			t.Errorf("%d events written one by one take %d writes, and %d are allowed", c.events, got, c.writes)
		}
	}
}
