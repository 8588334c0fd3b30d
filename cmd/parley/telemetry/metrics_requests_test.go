package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"parley/http/httpserver"
	"parley/http/rest"
)

// someRoute returns a route of the server.
func someRoute() *rest.Route {
	return &rest.Route{Method: "POST", Path: "/messages"}
}

func TestCountingAnAnswerAllocatesNothing(t *testing.T) {
	m, good, bad := NewRequestMeter(), httpserver.Answer{Route: someRoute(), Status: 201, Took: time.Millisecond}, httpserver.Answer{Status: 404, Code: "not_found"}
	if n := testing.AllocsPerRun(1000, func() { m.Observe(good) }); n != 0 {
		t.Errorf("counting an answer allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { m.Observe(bad) }); n != 0 {
		t.Errorf("counting a rejection allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { m.seconds.WithLabelValues("POST", strings.Clone(good.Route.Path), "2xx").Observe(1) }); n == 0 {
		t.Error("the check misses an allocation")
	}
}

func TestStrangeStatusesAreCounted(t *testing.T) {
	m := NewRequestMeter()
	for _, status := range []int{-1, 0, 99, 600, 9999} {
		m.Observe(httpserver.Answer{Status: status})
	}
}

func BenchmarkCountingAnAnswer(b *testing.B) {
	m, a := NewRequestMeter(), httpserver.Answer{Route: someRoute(), Status: 201, Took: time.Millisecond}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Observe(a)
		}
	})
}

// TestAccessLogWarnsOfDefects: the access log raises the level of lines that an operator
// should look at.
func TestAccessLogWarnsOfDefects(t *testing.T) {
	var said bytes.Buffer
	tell := ObserveAll(AccessLog(slog.New(slog.NewTextHandler(&said, nil))), func(httpserver.Answer) { said.WriteString("and then\n") })
	tell(httpserver.Answer{Route: someRoute(), RequestID: "r", Status: 503, Code: "overloaded", Took: 1500 * time.Microsecond})
	if got := said.String(); !strings.Contains(got, `level=WARN msg=request request_id=r method=POST route=/messages status=503 took_ms=1.5 code=overloaded`) || !strings.HasSuffix(got, "and then\n") {
		t.Errorf("the log has %q", got)
	}
}
