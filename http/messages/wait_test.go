package messages

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/query"
	"parley/client/parley"
	"parley/http/rest"
)

// endless is a feed whose end no lookup reaches.
type endless struct{ looks int }

func (e *endless) Look(context.Context, int, query.Fits) (query.Waiting, bool, error) {
	e.looks++
	return query.Waiting{}, true, nil
}

// TestWaitLookupsAreBounded: a wait for untransferred messages answers without one
// after a bounded number of lookups, before its timeout. The next wait continues. A
// wait without that bound ends at its timeout.
func TestWaitLookupsAreBounded(t *testing.T) {
	expect := func(looks int, patience time.Duration) int {
		feed := &endless{}
		w := messageWait{
			options: &Options{}, call: rest.NewCall(&fasthttp.RequestCtx{}, &rest.Host{Running: t.Context()}, nil, ""), agent: parley.AgentID{1},
			watch: func(parley.AgentID, func()) (stop func()) { return func() {} }, awaited: feed, looks: looks,
		}
		if found, err := w.expect(patience); err != nil || len(found.Items) != 0 {
			t.Errorf("%+v, %v", found, err)
		}
		return feed.looks
	}
	if looks := expect(waitReads, time.Hour); looks != waitReads {
		t.Errorf("%d lookups, want %d", looks, waitReads)
	}
	if looks := expect(math.MaxInt, time.Millisecond); looks == 0 {
		t.Error("no lookup was made")
	}
}
