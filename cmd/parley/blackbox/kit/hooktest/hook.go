package hooktest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// What a webhook and a delivery job show, and how often a job is attempted.
const (
	Shape       = "id:uuid agent_id:uuid url:str active:bool created_at:time events:arr description:str? disabled_at:time? disabled_reason:str?"
	Fields      = "id agent_id url active created_at events description disabled_at disabled_reason"
	jobShape    = "id:uuid webhook_id:uuid agent_id:uuid message_id:uuid? event:str status:str attempts:int max_attempts:int next_attempt_at:time? last_attempt_at:time? last_status_code:int? last_error:str? last_duration_ms:int? created_at:time delivered_at:time?"
	JobFields   = "id webhook_id agent_id message_id event status attempts max_attempts next_attempt_at last_attempt_at last_status_code last_error last_duration_ms created_at delivered_at"
	AttemptsMax = 8
)

// Servers are servers that most webhook tests share: they trust the sink.
var Servers = kit.NewVariants(TrustSink)

// TrustSink returns the flags of a server that trusts the sink.
func TrustSink() ([]string, error) {
	s, err := sinkOnce()
	if err != nil {
		return nil, err
	}
	return []string{"--webhook-ca", s.CAFile}, nil
}

// Each runs a test on both servers that trust the sink, in parallel with others.
func Each(t *testing.T, test func(t *testing.T, s *kit.Server)) {
	t.Parallel()
	kit.RunOn(t, Servers, test)
}

// Hook is a webhook as returned to its owner.
type Hook struct {
	Agent      *kit.Agent
	To         *Target
	ID, Secret string
}

// TryNew requests a webhook and checks nothing.
func TryNew(g *kit.Agent, address string, more ...obj) *kit.Answer {
	return g.Post("/webhooks", kit.Merged(obj{"agent_id": g.ID, "url": address}, more...))
}

// New creates a webhook.
func New(g *kit.Agent, to *Target, more ...obj) *Hook {
	g.T.Helper()
	a := TryNew(g, to.URL, more...).Want(201).Shaped(Shape)
	kit.Exactly(g.T, "the webhook", kit.Without(a.Body, "secret"), Fields)
	a.Is("agent_id", g.ID, "active", true, "disabled_at", nil, "disabled_reason", nil)
	h := &Hook{Agent: g, To: to, ID: a.Str("id"), Secret: a.Str("secret")}
	if !SecretForm.MatchString(h.Secret) {
		a.Errorf("the secret is not whsec_ and 32 bytes in base64")
	}
	return h
}

// Listening creates a webhook with a new target that answers with these reactions.
func Listening(g *kit.Agent, script ...Reaction) *Hook {
	g.T.Helper()
	return New(g, SharedSink(g.T).Target(script...))
}

// Wanting creates a webhook for some events.
func Wanting(g *kit.Agent, events ...string) *Hook {
	g.T.Helper()
	return New(g, SharedSink(g.T).Target(), obj{"events": events})
}

// Path is a path below that of the webhook.
func (h *Hook) Path(rest string) string { return "/webhooks/" + h.ID + rest }

// Read returns the webhook's row of the listing.
func (h *Hook) Read() obj {
	h.Agent.T.Helper()
	a := h.Agent.Get("/webhooks?include_inactive=true&agent_id=" + h.Agent.ID).Want(200)
	rows := kit.Objects(a.List)
	at := slices.IndexFunc(rows, func(row obj) bool { return row["id"] == h.ID })
	if at < 0 {
		a.Fatalf("no webhook %s in the listing", h.ID)
	}
	kit.Exactly(h.Agent.T, "a row of the listing", rows[at], Fields)
	kit.Shaped(h.Agent.T, "a row of the listing", rows[at], Shape)
	return rows[at]
}

// SetActive switches the webhook on or off.
func (h *Hook) SetActive(active bool) *kit.Answer {
	h.Agent.T.Helper()
	a := h.Agent.Patch(h.Path(""), obj{"active": active}).Want(200).Shaped(Shape)
	kit.Exactly(h.Agent.T, "the webhook", a.Body, Fields)
	return a.Is("id", h.ID, "active", active, "disabled_at", nil, "disabled_reason", nil)
}

// Jobs returns all its delivery jobs of a status, newest first.
func (h *Hook) Jobs(status string) []obj {
	h.Agent.T.Helper()
	query := url.Values{"limit": {"100"}}
	if status != "" {
		query.Set("status", status)
	}
	var all []obj
	for {
		query.Set("offset", strconv.Itoa(len(all)))
		a := h.Agent.Get(h.Path("/deliveries?") + query.Encode()).Want(200)
		kit.Exactly(h.Agent.T, "the page", a.Body, "items total limit offset")
		rows, _ := a.At("items").([]any)
		all = append(all, kit.Objects(rows)...)
		if total, _ := a.At("total").(float64); len(rows) == 0 || len(all) >= int(total) {
			return all
		}
	}
}

// Job returns the delivery job of a message, or nil if none exists yet.
func (h *Hook) Job(m obj) obj {
	h.Agent.T.Helper()
	for _, j := range h.Jobs("") {
		if j["message_id"] == m["id"] {
			return h.CheckJob(j)
		}
	}
	return nil
}

// CheckJob checks what holds for every job, whatever its status.
func (h *Hook) CheckJob(j obj) obj {
	t := h.Agent.T
	t.Helper()
	kit.Exactly(t, "a job", j, JobFields)
	kit.Shaped(t, "a job", j, jobShape)
	if j["webhook_id"] != h.ID || j["agent_id"] != h.Agent.ID || !kit.Same(j["max_attempts"], AttemptsMax) {
		t.Errorf("a job of webhook %s is %v", h.ID, j)
	}
	attempts, _ := j["attempts"].(float64)
	ended := j["last_attempt_at"] != nil
	switch status := j["status"]; {
	case (status == "failed") != (j["next_attempt_at"] != nil) && status != "pending",
		(status == "delivered") != (j["delivered_at"] != nil),
		status == "delivered" && (!kit.Same(j["last_status_code"], 200) && !kit.Same(j["last_status_code"], 201) && !kit.Same(j["last_status_code"], 204) || j["last_error"] != nil),
		(status == "failed" || status == "dead") && j["last_error"] == nil, status == "dead" && attempts < 1,
		status == "pending" && (attempts != 0 || ended),
		ended != (j["last_duration_ms"] != nil), attempts > AttemptsMax:
		t.Errorf("the fields of a job contradict each other: %v", j)
	}
	return j
}

// WaitForStatus waits until the job of a message has a status.
func (h *Hook) WaitForStatus(m obj, status string) obj {
	h.Agent.T.Helper()
	var j obj
	deadline := time.Now().Add(30 * time.Second)
	for j = h.Job(m); j == nil || j["status"] != status; j = h.Job(m) {
		if time.Now().After(deadline) {
			h.Agent.T.Fatalf("the job is not %s after 30 s: %v", status, j)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return j
}

// WaitForCounts waits until the summary has these counts: delivered, failed, dead, pending.
func (h *Hook) WaitForCounts(delivered, failed, dead, pending int) {
	h.Agent.T.Helper()
	want := obj{"total": delivered + failed + dead + pending, "delivered": delivered, "failed": failed, "dead": dead, "pending": pending}
	var got *kit.Answer
	deadline := time.Now().Add(30 * time.Second)
	for {
		if got = h.Agent.Get(h.Path("/deliveries/summary")).Want(200); kit.Same(got.Body, want) {
			return
		}
		if time.Now().After(deadline) {
			got.Fatalf("want the summary %v", want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Retry requests an immediate attempt of a job and checks nothing.
func (h *Hook) Retry(job obj) *kit.Answer {
	return h.Agent.Post(h.Path("/deliveries/"+kit.Text(job, "id")+"/retry"), nil)
}

// Events returns the names of the events that a target received, in order.
func (x *Target) Events() string {
	var names []string
	for _, d := range x.Deliveries() {
		names = append(names, kit.Text(d.Body, "event"))
	}
	return strings.Join(names, " ")
}

// WaitForEvent waits for deliveries of an event, counted from 1, checks the payload of
// the last and returns it: field of must have the id, and message_id is null unless the
// event is about a message.
func (h *Hook) WaitForEvent(event string, n int, of, id string) *Delivery {
	t := h.Agent.T
	t.Helper()
	var all []*Delivery
	kit.Eventually(t, h.Agent.Name+" is notified about "+event, func() bool {
		all = nil
		for _, d := range h.To.Deliveries() {
			if d.Body["event"] == event {
				all = append(all, d)
			}
		}
		return len(all) >= n
	})
	d := all[n-1].Judged(t, h)
	if d.Body[of] != id {
		t.Errorf("%s was notified about something other than %s %s: %s", h.Agent.Name, of, id, d.Raw)
	}
	want := []string{"message_id", "agent_id", "event", "timestamp"}
	switch {
	case strings.HasPrefix(event, "message."):
	case strings.HasPrefix(event, "group.request.") || event == "group.invited":
		want = append(want, "group_id", "request_id")
	case strings.HasPrefix(event, "group.member."):
		want = append(want, "group_id", "member_agent_id", "member_handle")
	case strings.HasPrefix(event, "group."):
		want = append(want, "group_id")
	default:
		want = append(want, "conversation_id")
	}
	kit.Exactly(t, "the payload", d.Body, strings.Join(want, " "))
	if (d.Body["message_id"] == nil) == strings.HasPrefix(event, "message.") {
		t.Errorf("message_id of %s: %s", event, d.Raw)
	}
	return d
}

// CheckOnlyEvents checks, after all expected deliveries, that there are no others.
func (h *Hook) CheckOnlyEvents(events ...string) {
	h.Agent.T.Helper()
	got := strings.Fields(h.To.Events())
	slices.Sort(got)
	slices.Sort(events)
	if !slices.Equal(got, events) {
		h.Agent.T.Errorf("%s was notified about %v, want %v", h.Agent.Name, got, events)
	}
}

// Holds waits until the job of a message is held and returns it.
func (h *Hook) Holds(m obj) obj {
	h.Agent.T.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if j := h.Job(m); j != nil && j["status"] == "pending" && j["next_attempt_at"] != nil {
			return j
		}
		if time.Now().After(deadline) {
			h.Agent.T.Fatalf("the job is not held after 30 s: %v", h.Job(m))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Retried checks the second attempt of a job, which completes it.
func (h *Hook) Retried(m, j obj) {
	t := h.Agent.T
	t.Helper()
	done := h.WaitForStatus(m, "delivered")
	if done["id"] != j["id"] || !kit.Same(done["attempts"], 2) || !kit.Same(done["last_status_code"], 200) {
		t.Errorf("after the retry the job is %v", done)
	}
	var both []*Delivery
	for _, d := range h.To.Deliveries() {
		if d.Body["message_id"] == m["id"] {
			both = append(both, d.Judged(t, h))
		}
	}
	if len(both) != 2 {
		t.Fatalf("%d attempts, want 2", len(both))
	}
	first, second := both[0], both[1]
	if waited := second.At.Sub(first.At); waited < 4400*time.Millisecond || waited > 6500*time.Millisecond {
		t.Errorf("the retry came after %v", waited)
	}
	if string(first.Raw) != string(second.Raw) || first.Header.Get("Webhook-Id") != second.Header.Get("Webhook-Id") || first.Header.Get("Webhook-Timestamp") == second.Header.Get("Webhook-Timestamp") {
		t.Errorf("a retry must be the same delivery at another time: %s %v", second.Raw, second.Header)
	}
}

// CheckAfterPause checks a webhook that was off while a retry was due and a message
// arrived, and switches it on.
func (h *Hook) CheckAfterPause(m, waiting, missed obj) {
	t := h.Agent.T
	t.Helper()
	if now := h.Job(m); !kit.Same(now, waiting) || len(h.To.Deliveries()) != 1 {
		t.Errorf("while the webhook was off it received %d deliveries, and the job became %v", len(h.To.Deliveries()), now)
	}
	h.Retry(waiting).As("off").Refused(409, "invalid_transition").Is("current_status", "inactive")
	h.WaitForCounts(0, 1, 0, 0)
	h.SetActive(true)
	h.WaitForStatus(m, "delivered")
	if j := h.Job(missed); j != nil {
		t.Errorf("an event that occurred while it was off has the job %v", j)
	}
}

// Settles waits until a webhook with a healthy target has delivered everything, checks
// its jobs and counts them.
func (h *Hook) Settles(well bool) int {
	t := h.Agent.T
	t.Helper()
	var summary *kit.Answer
	deadline := time.Now().Add(30 * time.Second)
	for {
		summary = h.Agent.Get(h.Path("/deliveries/summary")).Want(200)
		if kit.Same(summary.At("delivered"), summary.At("total")) || !well {
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
		h.CheckJob(j)
		if of[j["message_id"]]++; j["message_id"] != nil && of[j["message_id"]] > 1 {
			t.Errorf("message %v has %d jobs", j["message_id"], of[j["message_id"]])
		}
	}
	if !kit.Same(again.At("total"), len(jobs)) || !kit.Same(again.At("dead"), dead(jobs)) {
		again.Errorf("the summary does not count the %d jobs: %d dead", len(jobs), dead(jobs))
	}
	return len(jobs)
}

// counted reads the jobs and their counts, and repeats both while new jobs are created
// between the two reads.
func (h *Hook) counted() (jobs []obj, summary *kit.Answer) {
	for range 100 {
		jobs, summary = h.Jobs(""), h.Agent.Get(h.Path("/deliveries/summary")).Want(200)
		if kit.Same(summary.At("total"), len(jobs)) && kit.Same(summary.At("dead"), dead(jobs)) {
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
