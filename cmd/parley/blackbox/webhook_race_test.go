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
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile)
		senders, readers := s.org(t).newAgents(3, "s"), s.org(t).newAgents(4, "r")
		for _, g := range readers {
			g.hooksAt(theSink(t).target().url + wellTarget).want(201)
		}
		var stop atomic.Bool
		var changes atomic.Int64
		var working sync.WaitGroup
		for _, from := range senders {
			working.Go(func() {
				for !stop.Load() {
					if a := from.trySend(anyOf(readers), nil); a.status != 201 {
						a.errorf("a send during webhook changes")
					}
				}
			})
		}
		for range 4 {
			working.Go(func() {
				for !stop.Load() {
					g := anyOf(readers)
					for _, a := range g.changeWebhooks() {
						if a.err != nil || a.status >= 500 {
							a.errorf("no answer from a healthy server")
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
			for _, row := range objects(g.get("/webhooks?include_inactive=true&agent_id=" + g.id).want(200).list) {
				h := &hook{agent: g, id: text(row, "id")}
				jobs += h.settles(row["active"] == true && strings.HasSuffix(text(row, "url"), wellTarget))
				hooks++
			}
		}
		t.Logf("%d changes; %d webhooks are left, with %d jobs", changes.Load(), hooks, jobs)
		if changes.Load() < 50 || jobs < 50 {
			t.Error("too little load")
		}
		verifyDirectory(t, s)
	})
}

// wellTarget is the suffix of the URL of a target that accepts everything.
const wellTarget = "?well"

// changeWebhooks makes a random change to the webhooks of an agent.
func (g *agent) changeWebhooks() []*answer {
	listed := g.get("/webhooks?include_inactive=true&agent_id=" + g.id)
	if len(listed.list) == 0 || len(listed.list) < 6 && rand.IntN(3) == 0 {
		script := anyOf([][]reaction{{says(500)}, {says(410), says(200)}, {closesConnection}, {says(429, "Retry-After", "60")}, nil, {answersLate}, {says(201)}})
		address := theSink(g.t).target(script...).url
		if len(script) == 0 {
			address += wellTarget
		}
		return []*answer{listed, g.hooksAt(address)}
	}
	h := &hook{agent: g, id: text(anyOf(listed.list).(obj), "id")}
	switch rand.IntN(6) {
	case 0:
		return []*answer{g.delete(h.path(""))}
	case 1:
		return []*answer{g.patch(h.path(""), obj{"active": false})}
	case 2:
		return []*answer{g.post(h.path("/rotate-secret"), nil)}
	case 3:
		return []*answer{g.post(h.path("/test"), nil)}
	case 4:
		page := g.get(h.path("/deliveries?limit=100"))
		rows, _ := page.at("items").([]any)
		if len(rows) == 0 {
			return []*answer{page}
		}
		return []*answer{page, h.retry(anyOf(rows).(obj))}
	}
	return []*answer{g.patch(h.path(""), obj{"active": true})}
}

// settles waits until a webhook with a healthy target has delivered everything, checks
// its jobs and counts them.
func (h *hook) settles(well bool) int {
	t := h.agent.t
	t.Helper()
	var summary *answer
	deadline := time.Now().Add(30 * time.Second)
	for {
		summary = h.agent.get(h.path("/deliveries/summary")).want(200)
		if same(summary.at("delivered"), summary.at("total")) || !well {
			break
		}
		if time.Now().After(deadline) {
			summary.errorf("the webhook never comes to rest")
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
	if !same(again.at("total"), len(jobs)) || !same(again.at("dead"), dead(jobs)) {
		again.errorf("the summary does not count the %d jobs: %d dead", len(jobs), dead(jobs))
	}
	return len(jobs)
}

// TestFirstAttemptsKeepOrder: deliveries of one webhook begin in the order of the
// messages. Concurrent ones may overtake each other slightly.
func TestFirstAttemptsKeepOrder(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h := b.listens()
		place := map[string]int{}
		for n := range 120 {
			place[text(a.send(b), "id")] = n
		}
		h.waitForCounts(120, 0, 0, 0)
		for n, d := range h.to.deliveries() {
			if off := place[text(d.body, "message_id")] - n; off < -16 || off > 16 {
				t.Errorf("message %d was announced as number %d", place[text(d.body, "message_id")], n)
			}
		}
		var created []string
		for _, j := range h.jobs("") {
			created = append(created, text(j, "message_id"))
		}
		slices.Reverse(created)
		if !slices.IsSortedFunc(created, func(x, y string) int { return place[x] - place[y] }) {
			t.Error("the jobs are not in the order of the messages")
		}
	})
}

// counted reads the jobs and their counts, and repeats both while new jobs are created
// between the two reads.
func (h *hook) counted() (jobs []obj, summary *answer) {
	for range 100 {
		jobs, summary = h.jobs(""), h.agent.get(h.path("/deliveries/summary")).want(200)
		if same(summary.at("total"), len(jobs)) && same(summary.at("dead"), dead(jobs)) {
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
