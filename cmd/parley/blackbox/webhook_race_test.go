package blackbox

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestConcurrentWebhookChanges creates, switches, rotates, retries and deletes webhooks
// of a few agents while others send to them, with targets of every kind. At the end every
// active webhook with a healthy target has delivered all its jobs, at most one for each
// message, and the data directory passes verification.
func TestConcurrentWebhookChanges(t *testing.T) {
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile)
		senders, readers := s.Org(t).NewAgents(3, "s"), s.Org(t).NewAgents(4, "r")
		for _, g := range readers {
			g.hooksAt(theSink(t).target().url + wellTarget).Want(201)
		}
		var stop atomic.Bool
		var changes atomic.Int64
		var working sync.WaitGroup
		for _, from := range senders {
			working.Go(func() {
				for !stop.Load() {
					if a := from.TrySend(AnyOf(readers), nil); a.Status != 201 {
						a.Errorf("a send during webhook changes")
					}
				}
			})
		}
		for range 4 {
			working.Go(func() {
				for !stop.Load() {
					g := AnyOf(readers)
					for _, a := range g.changeWebhooks() {
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
			for _, row := range Objects(g.Get("/webhooks?include_inactive=true&agent_id=" + g.ID).Want(200).List) {
				h := &hook{agent: g, id: Text(row, "id")}
				jobs += h.settles(row["active"] == true && strings.HasSuffix(Text(row, "url"), wellTarget))
				hooks++
			}
		}
		t.Logf("%d changes; %d webhooks are left, with %d jobs", changes.Load(), hooks, jobs)
		if changes.Load() < 50 || jobs < 50 {
			t.Error("too little load")
		}
		VerifyDirectory(t, s)
	})
}

// wellTarget is the suffix of the URL of a target that accepts everything.
const wellTarget = "?well"

// changeWebhooks makes a random change to the webhooks of an agent.
func (g *Agent) changeWebhooks() []*Answer {
	listed := g.Get("/webhooks?include_inactive=true&agent_id=" + g.ID)
	if len(listed.List) == 0 || len(listed.List) < 6 && rand.IntN(3) == 0 {
		script := AnyOf([][]reaction{{says(500)}, {says(410), says(200)}, {closesConnection}, {says(429, "Retry-After", "60")}, nil, {answersLate}, {says(201)}})
		address := theSink(g.T).target(script...).url
		if len(script) == 0 {
			address += wellTarget
		}
		return []*Answer{listed, g.hooksAt(address)}
	}
	h := &hook{agent: g, id: Text(AnyOf(listed.List).(obj), "id")}
	switch rand.IntN(6) {
	case 0:
		return []*Answer{g.Delete(h.path(""))}
	case 1:
		return []*Answer{g.Patch(h.path(""), obj{"active": false})}
	case 2:
		return []*Answer{g.Post(h.path("/rotate-secret"), nil)}
	case 3:
		return []*Answer{g.Post(h.path("/test"), nil)}
	case 4:
		page := g.Get(h.path("/deliveries?limit=100"))
		rows, _ := page.At("items").([]any)
		if len(rows) == 0 {
			return []*Answer{page}
		}
		return []*Answer{page, h.retry(AnyOf(rows).(obj))}
	}
	return []*Answer{g.Patch(h.path(""), obj{"active": true})}
}

// settles waits until a webhook with a healthy target has delivered everything, checks
// its jobs and counts them.
func (h *hook) settles(well bool) int {
	t := h.agent.T
	t.Helper()
	var summary *Answer
	deadline := time.Now().Add(30 * time.Second)
	for {
		summary = h.agent.Get(h.path("/deliveries/summary")).Want(200)
		if Same(summary.At("delivered"), summary.At("total")) || !well {
			break
		}
		if time.Now().After(deadline) {
			summary.Errorf("the webhook never comes to rest")
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	jobs, again := h.counted()
	of := map[any]int{}
	for _, j := range jobs {
		h.checkJob(j)
		if of[j["message_id"]]++; j["message_id"] != nil && of[j["message_id"]] > 1 {
			t.Errorf("message %v has %d jobs", j["message_id"], of[j["message_id"]])
		}
	}
	if !Same(again.At("total"), len(jobs)) || !Same(again.At("dead"), dead(jobs)) {
		again.Errorf("the summary does not count the %d jobs: %d dead", len(jobs), dead(jobs))
	}
	return len(jobs)
}

// TestFirstAttemptsKeepOrder: deliveries of one webhook begin in the order of the
// messages. Concurrent ones may overtake each other slightly.
func TestFirstAttemptsKeepOrder(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens()
		place := map[string]int{}
		for n := range 120 {
			place[Text(a.Send(b), "id")] = n
		}
		h.waitForCounts(120, 0, 0, 0)
		for n, d := range h.to.deliveries() {
			if off := place[Text(d.body, "message_id")] - n; off < -16 || off > 16 {
				t.Errorf("message %d was announced as number %d", place[Text(d.body, "message_id")], n)
			}
		}
		var created []string
		for _, j := range h.jobs("") {
			created = append(created, Text(j, "message_id"))
		}
		slices.Reverse(created)
		if !slices.IsSortedFunc(created, func(x, y string) int { return place[x] - place[y] }) {
			t.Error("the jobs are not in the order of the messages")
		}
	})
}

// counted reads the jobs and their counts, and repeats both while new jobs are created
// between the two reads.
func (h *hook) counted() (jobs []obj, summary *Answer) {
	for range 100 {
		jobs, summary = h.jobs(""), h.agent.Get(h.path("/deliveries/summary")).Want(200)
		if Same(summary.At("total"), len(jobs)) && Same(summary.At("dead"), dead(jobs)) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return jobs, summary
}

func dead(jobs []obj) (n int) {
	for _, j := range jobs {
		if j["status"] == "dead" {
			n++
		}
	}
	return n
}
