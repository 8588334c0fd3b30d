package nodes

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
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
	flags, err := hooktest.TrustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := kit.StartNodes(t, 3, flags...)
	n.Ready(t)
	for name, forbid := range map[string]func(at *kit.Server, h *hooktest.Hook){
		"suspended": func(at *kit.Server, h *hooktest.Hook) {
			if said, err := at.Operate("org", "suspend", h.Agent.Slug); err != nil {
				t.Error(said, err)
			}
		},
		"switched off": func(at *kit.Server, h *hooktest.Hook) {
			h.Agent.On(at).Patch(h.Path(""), obj{"active": false}).Want(200)
		},
		"deleted": func(at *kit.Server, h *hooktest.Hook) {
			h.Agent.On(at).Delete(h.Path("")).Want(204)
		},
		"deleted after a handover": func(at *kit.Server, h *hooktest.Hook) {
			if said, err := at.Operate("cluster", "balance", "--to", at.Flag("--node-name")); err != nil {
				t.Error(said, err)
			}
			h.Agent.On(at).Delete(h.Path("")).Want(204)
		},
	} {
		follower := n.Follower()
		one, other := kit.Pair(t, n.Server())
		h := hooktest.Listening(other, answersSoon)
		var sending sync.WaitGroup
		for range 6 { // faster than they are delivered
			sending.Go(func() {
				for range 10 {
					one.Send(other)
				}
			})
		}
		sending.Wait()
		h.To.WaitForDelivery(t, 2)
		forbid(follower, h)
		answered := time.Now()
		time.Sleep(1500 * time.Millisecond)
		late, begun := 0, h.To.Deliveries()
		for _, d := range begun {
			if d.At.After(answered.Add(20 * time.Millisecond)) { // it was on its way
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
	flags, err := hooktest.TrustSink()
	if err != nil {
		t.Fatal(err)
	}
	n := kit.StartNodes(t, 3, flags...)
	n.Ready(t)
	for name, end := range map[string]func(at *kit.Server, h *hooktest.Hook, held obj){
		"retry": func(at *kit.Server, h *hooktest.Hook, held obj) {
			h.Agent.On(at).Post(h.Path("/deliveries/"+kit.Text(held, "id")+"/retry"), nil).Want(200)
		},
		"test": func(at *kit.Server, h *hooktest.Hook, _ obj) { h.Agent.On(at).Post(h.Path("/test"), nil).Want(200) },
		"PATCH": func(at *kit.Server, h *hooktest.Hook, _ obj) {
			h.Agent.On(at).Patch(h.Path(""), obj{"active": true}).Want(200)
		},
	} {
		one, other := kit.Pair(t, n.Server())
		h := hooktest.Listening(other, hooktest.Says(503, "Retry-After", "86400"), hooktest.Says(200))
		h.WaitForStatus(one.Send(other), "failed")
		held := one.Send(other)
		end(n.Follower(), h, h.Holds(held))
		began := time.Now()
		for j := h.Job(held); j["status"] != "delivered"; j = h.Job(held) {
			if time.Since(began) > 5*time.Second {
				t.Errorf("%s at a follower: after 5 s the job is %v", name, j)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
