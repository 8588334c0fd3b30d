package webhooks

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestConcurrentWebhookChanges creates, switches, rotates, retries and deletes webhooks
// of a few agents while others send to them, with targets of every kind. At the end every
// active webhook with a healthy target has delivered all its jobs, at most one for each
// message, and the data directory passes verification.
func TestConcurrentWebhookChanges(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		senders, readers := s.Org(t).NewAgents(3, "s"), s.Org(t).NewAgents(4, "r")
		for _, g := range readers {
			hooktest.TryNew(g, hooktest.SharedSink(t).Target().URL+wellTarget).Want(201)
		}
		var stop atomic.Bool
		var changes atomic.Int64
		var working sync.WaitGroup
		for _, from := range senders {
			working.Go(func() {
				for !stop.Load() {
					if a := from.TrySend(kit.AnyOf(readers), nil); a.Status != 201 {
						a.Errorf("a send during webhook changes")
					}
				}
			})
		}
		for range 4 {
			working.Go(func() {
				for !stop.Load() {
					g := kit.AnyOf(readers)
					for _, a := range changeWebhooks(g) {
						if a.Err != nil || a.Status >= 500 {
							a.Errorf("no answer from a healthy server")
						}
						changes.Add(1)
					}
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		stop.Store(true)
		working.Wait()
		hooks, jobs := 0, 0
		for _, g := range readers {
			for _, row := range kit.Objects(g.Get("/webhooks?include_inactive=true&agent_id=" + g.ID).Want(200).List) {
				h := &hooktest.Hook{Agent: g, ID: kit.Text(row, "id")}
				jobs += h.Settles(row["active"] == true && strings.HasSuffix(kit.Text(row, "url"), wellTarget))
				hooks++
			}
		}
		t.Logf("%d changes; %d webhooks are left, with %d jobs", changes.Load(), hooks, jobs)
		if changes.Load() < 50 || jobs < 50 {
			t.Error("too little load")
		}
		kit.VerifyDirectory(t, s)
	})
}

// wellTarget is the suffix of the URL of a target that accepts everything.
const wellTarget = "?well"

// changeWebhooks makes a random change to the webhooks of an agent.
func changeWebhooks(g *kit.Agent) []*kit.Answer {
	listed := g.Get("/webhooks?include_inactive=true&agent_id=" + g.ID)
	if len(listed.List) == 0 || len(listed.List) < 6 && rand.IntN(3) == 0 {
		script := kit.AnyOf([][]hooktest.Reaction{{hooktest.Says(500)}, {hooktest.Says(410), hooktest.Says(200)}, {closesConnection}, {hooktest.Says(429, "Retry-After", "60")}, nil, {hooktest.AnswersLate}, {hooktest.Says(201)}})
		address := hooktest.SharedSink(g.T).Target(script...).URL
		if len(script) == 0 {
			address += wellTarget
		}
		return []*kit.Answer{listed, hooktest.TryNew(g, address)}
	}
	h := &hooktest.Hook{Agent: g, ID: kit.Text(kit.AnyOf(listed.List).(obj), "id")}
	switch rand.IntN(6) {
	case 0:
		return []*kit.Answer{g.Delete(h.Path(""))}
	case 1:
		return []*kit.Answer{g.Patch(h.Path(""), obj{"active": false})}
	case 2:
		return []*kit.Answer{g.Post(h.Path("/rotate-secret"), nil)}
	case 3:
		return []*kit.Answer{g.Post(h.Path("/test"), nil)}
	case 4:
		page := g.Get(h.Path("/deliveries?limit=100"))
		rows, _ := page.At("items").([]any)
		if len(rows) == 0 {
			return []*kit.Answer{page}
		}
		return []*kit.Answer{page, h.Retry(kit.AnyOf(rows).(obj))}
	}
	return []*kit.Answer{g.Patch(h.Path(""), obj{"active": true})}
}

// TestFirstAttemptsKeepOrder: deliveries of one webhook begin in the order of the
// messages. Concurrent ones may overtake each other slightly.
func TestFirstAttemptsKeepOrder(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b)
		place := map[string]int{}
		for n := range 120 {
			place[kit.Text(a.Send(b), "id")] = n
		}
		h.WaitForCounts(120, 0, 0, 0)
		for n, d := range h.To.Deliveries() {
			if off := place[kit.Text(d.Body, "message_id")] - n; off < -16 || off > 16 {
				t.Errorf("message %d was announced as number %d", place[kit.Text(d.Body, "message_id")], n)
			}
		}
		var created []string
		for _, j := range h.Jobs("") {
			created = append(created, kit.Text(j, "message_id"))
		}
		slices.Reverse(created)
		if !slices.IsSortedFunc(created, func(x, y string) int { return place[x] - place[y] }) {
			t.Error("the jobs are not in the order of the messages")
		}
	})
}
