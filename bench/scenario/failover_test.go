package scenario

import (
	"testing"
	"time"
)

// TestOutageIgnoresEarlierRequests: a 201 to a request that was sent before the fault says
// nothing about what came after it.
func TestOutageIgnoresEarlierRequests(t *testing.T) {
	var o outage
	o.acknowledged(time.Now()) // without an outage nothing is counted
	before := time.Now()
	first := o.begin()
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

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for percent, want := range map[int]float64{1: 1, 20: 1, 21: 2, 50: 3, 99: 5, 100: 5} {
		if got := quantile(values, percent); got != want {
			t.Errorf("%d %%: %v, want %v", percent, got, want)
		}
	}
}
