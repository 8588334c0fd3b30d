package blackbox

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// answersSoon answers after a moment, in which further deliveries wait.
func answersSoon(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(500 * time.Millisecond)
	w.WriteHeader(http.StatusOK)
}

// TestNodesStopAttempts forbids attempts at a node that does not lead, while tens of them wait
// at the one that does. None begins after the answer, on any node, also if another one leads
// before the answer.
func TestNodesStopAttempts(t *testing.T) {
	t.Parallel()
	flags, err := trustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := startNodes(t, 3, flags...)
	n.ready(t)
	for name, forbid := range map[string]func(at *server, h *hook){
		"suspended": func(at *server, h *hook) {
			if said, err := at.operate("org", "suspend", h.agent.slug); err != nil {
				t.Error(said, err)
			}
		},
		"switched off": func(at *server, h *hook) {
			h.agent.on(at).patch(h.path(""), obj{"active": false}).want(200)
		},
		"deleted": func(at *server, h *hook) {
			h.agent.on(at).delete(h.path("")).want(204)
		},
		"deleted after a handover": func(at *server, h *hook) {
			if said, err := at.operate("cluster", "balance", "--to", at.flag("--node-name")); err != nil {
				t.Error(said, err)
			}
			h.agent.on(at).delete(h.path("")).want(204)
		},
	} {
		follower := n.follower()
		one, other := pair(t, n.server())
		h := other.listens(answersSoon)
		var sending sync.WaitGroup
		for range 6 { // faster than they are delivered
			sending.Go(func() {
				for range 10 {
					one.send(other)
				}
			})
		}
		sending.Wait()
		h.to.waitForDelivery(t, 2)
		forbid(follower, h)
		answered := time.Now()
		time.Sleep(1500 * time.Millisecond)
		late, begun := 0, h.to.deliveries()
		for _, d := range begun {
			if d.at.After(answered.Add(20 * time.Millisecond)) { // it was on its way
				late++
			}
		}
		if t.Logf("%s: %d attempts, %d of them after the answer", name, len(begun), late); late > 0 || len(begun) > 50 {
			t.Errorf("%s: %d attempts began after the answer, of %d", name, late, len(begun))
		}
	}
}

// TestNodesEndHolds ends the hold of a webhook at a node that does not lead.
func TestNodesEndHolds(t *testing.T) {
	t.Parallel()
	flags, err := trustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := startNodes(t, 3, flags...)
	n.ready(t)
	for name, end := range map[string]func(at *server, h *hook, held obj){
		"retry": func(at *server, h *hook, held obj) {
			h.agent.on(at).post(h.path("/deliveries/"+text(held, "id")+"/retry"), nil).want(200)
		},
		"test":  func(at *server, h *hook, _ obj) { h.agent.on(at).post(h.path("/test"), nil).want(200) },
		"PATCH": func(at *server, h *hook, _ obj) { h.agent.on(at).patch(h.path(""), obj{"active": true}).want(200) },
	} {
		one, other := pair(t, n.server())
		h := other.listens(says(503, "Retry-After", "86400"), says(200))
		h.waitForStatus(one.send(other), "failed")
		held := one.send(other)
		end(n.follower(), h, h.holds(held))
		began := time.Now()
		for j := h.job(held); j["status"] != "delivered"; j = h.job(held) {
			if time.Since(began) > 5*time.Second {
				t.Errorf("%s at a follower: after 5 s the job is %v", name, j)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
