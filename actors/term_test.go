package actors

import (
	"testing"
	"time"
)

// TestQuotaOfReturningLeader: a node that leads again counts what was sent while another one led.
func TestQuotaOfReturningLeader(t *testing.T) {
	r := newTestNode(t, withReplicas(lateBy(time.Millisecond)))
	d := newQuotaFixture(t, r)
	r.node = r.replicas.nodes[0]
	limit, sent := 50, 0
	send := func(n int) {
		for range n {
			if _, err := d.sendFrom(sent, &limit, ""); err == nil {
				sent++
			}
		}
	}
	send(10)
	r.replicas.lead(r)
	send(30)
	r.replicas.lead(r)
	send(40)
	if sent != limit {
		t.Errorf("%d messages were sent under a limit of %d", sent, limit)
	}
}
