package http

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley"
	"parley/actors/query"
	"parley/http/rest"
)

// endless is a feed of which no look sees the end.
type endless struct{ looks int }

func (e *endless) Look(context.Context, int, query.Fits) (query.Waiting, bool, error) {
	e.looks++
	return query.Waiting{}, true, nil
}

// TestWaitLooksOnEndSoOften: a wait for what was not carried answers after so
// many looks, with nothing, and does not wait for its time to be up: the next one
// goes on. One without that bound ends with its time.
func TestWaitLooksOnEndSoOften(t *testing.T) {
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	h := newHarness(t, 1, ln, nil)
	defer h.close()
	expect := func(looks int, patience time.Duration) int {
		feed := &endless{}
		w := messageWait{
			service: h.service.core, call: rest.NewCall(&fasthttp.RequestCtx{}, inside[rest.Host](h.server, "host"), nil, ""), agent: parley.AgentID{1},
			awaited: feed, looks: looks,
		}
		if found, err := w.expect(patience); err != nil || len(found.Items) != 0 {
			t.Errorf("%+v, %v", found, err)
		}
		return feed.looks
	}
	if looks := expect(waitReads, time.Hour); looks != waitReads {
		t.Errorf("%d looks, want %d", looks, waitReads)
	}
	if looks := expect(math.MaxInt, time.Millisecond); looks == 0 {
		t.Error("nobody looked")
	}
}
