package scenario

import (
	"testing"
	"time"
)

// TestOutageIgnoresEarlierRequests: a 201 to a request that was sent before the fault says
// nothing about what came after it.
func TestOutageIgnoresEarlierRequests(t *testing.T) {
	var o Outage
	o.acknowledged(time.Now()) // without an outage nothing is counted
	before := time.Now()
	first := o.Begin()
	o.acknowledged(before)
	select {
	case <-first:
		t.Fatal("an earlier request was counted")
	default:
	}
	sent := time.Now().Add(time.Millisecond)
	o.acknowledged(sent)
	o.acknowledged(sent) // only the first counts
	select {
	case at := <-first:
		if at.Before(before) {
			t.Errorf("the first 201 came at %v", at)
		}
	default:
		t.Error("no first 201")
	}
	if len(first) != 0 {
		t.Error("two answers are the first")
	}
}
