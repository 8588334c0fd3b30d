package blackbox

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a webhook and a delivery job show, and how often a job is attempted.
const (
	hookShape   = "id:uuid agent_id:uuid url:str active:bool created_at:time events:arr description:str? disabled_at:time? disabled_reason:str?"
	hookFields  = "id agent_id url active created_at events description disabled_at disabled_reason"
	jobShape    = "id:uuid webhook_id:uuid agent_id:uuid message_id:uuid? event:str status:str attempts:int max_attempts:int next_attempt_at:time? last_attempt_at:time? last_status_code:int? last_error:str? last_duration_ms:int? created_at:time delivered_at:time?"
	jobFields   = "id webhook_id agent_id message_id event status attempts max_attempts next_attempt_at last_attempt_at last_status_code last_error last_duration_ms created_at delivered_at"
	attemptsMax = 8
)

// hooked are servers that most webhook tests share: they trust the sink.
var hooked = NewVariants(trustSink)

func trustSink() ([]string, error) {
	s, err := sinkOnce()
	if err != nil {
		return nil, err
	}
	return []string{"--webhook-ca", s.caFile}, nil
}

// hooks runs a test on both servers that trust the sink, in parallel with others.
func hooks(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Parallel()
	RunOn(t, hooked, test)
}

// hook is a webhook as returned to its owner.
type hook struct {
	agent      *Agent
	to         *target
	id, secret string
}

// hooksAt requests a webhook and checks nothing.
func (g *Agent) hooksAt(address string, more ...obj) *Answer {
	return g.Post("/webhooks", Merged(obj{"agent_id": g.ID, "url": address}, more...))
}

// hook creates a webhook.
func (g *Agent) hook(to *target, more ...obj) *hook {
	g.T.Helper()
	a := g.hooksAt(to.url, more...).Want(201).Shaped(hookShape)
	Exactly(g.T, "the webhook", Without(a.Body, "secret"), hookFields)
	a.Is("agent_id", g.ID, "active", true, "disabled_at", nil, "disabled_reason", nil)
	h := &hook{agent: g, to: to, id: a.Str("id"), secret: a.Str("secret")}
	if !secretForm.MatchString(h.secret) {
		a.Errorf("the secret is not whsec_ and 32 bytes in base64")
	}
	return h
}

// listens creates a webhook with a new target that answers with these reactions.
func (g *Agent) listens(script ...reaction) *hook {
	g.T.Helper()
	return g.hook(theSink(g.T).target(script...))
}

// wants creates a webhook for some events.
func (g *Agent) wants(events ...string) *hook {
	g.T.Helper()
	return g.hook(theSink(g.T).target(), obj{"events": events})
}

func (h *hook) path(rest string) string { return "/webhooks/" + h.id + rest }

// read returns the webhook's row of the listing.
func (h *hook) read() obj {
	h.agent.T.Helper()
	a := h.agent.Get("/webhooks?include_inactive=true&agent_id=" + h.agent.ID).Want(200)
	rows := Objects(a.List)
	at := slices.IndexFunc(rows, func(row obj) bool { return row["id"] == h.id })
	if at < 0 {
		a.Fatalf("no webhook %s in the listing", h.id)
	}
	Exactly(h.agent.T, "a row of the listing", rows[at], hookFields)
	Shaped(h.agent.T, "a row of the listing", rows[at], hookShape)
	return rows[at]
}

// setActive switches the webhook on or off.
func (h *hook) setActive(active bool) *Answer {
	h.agent.T.Helper()
	a := h.agent.Patch(h.path(""), obj{"active": active}).Want(200).Shaped(hookShape)
	Exactly(h.agent.T, "the webhook", a.Body, hookFields)
	return a.Is("id", h.id, "active", active, "disabled_at", nil, "disabled_reason", nil)
}

// jobs returns all its delivery jobs of a status, newest first.
func (h *hook) jobs(status string) []obj {
	h.agent.T.Helper()
	query := url.Values{"limit": {"100"}}
	if status != "" {
		query.Set("status", status)
	}
	var all []obj
	for {
		query.Set("offset", strconv.Itoa(len(all)))
		a := h.agent.Get(h.path("/deliveries?") + query.Encode()).Want(200)
		Exactly(h.agent.T, "the page", a.Body, "items total limit offset")
		rows, _ := a.At("items").([]any)
		all = append(all, Objects(rows)...)
		if total, _ := a.At("total").(float64); len(rows) == 0 || len(all) >= int(total) {
			return all
		}
	}
}

// job returns the delivery job of a message, or nil if none exists yet.
func (h *hook) job(m obj) obj {
	h.agent.T.Helper()
	for _, j := range h.jobs("") {
		if j["message_id"] == m["id"] {
			return h.checkJob(j)
		}
	}
	return nil
}

// checkJob checks what holds for every job, whatever its status.
func (h *hook) checkJob(j obj) obj {
	t := h.agent.T
	t.Helper()
	Exactly(t, "a job", j, jobFields)
	Shaped(t, "a job", j, jobShape)
	if j["webhook_id"] != h.id || j["agent_id"] != h.agent.ID || !Same(j["max_attempts"], attemptsMax) {
		t.Errorf("a job of webhook %s is %v", h.id, j)
	}
	attempts, _ := j["attempts"].(float64)
	ended := j["last_attempt_at"] != nil
	switch status := j["status"]; {
	case (status == "failed") != (j["next_attempt_at"] != nil) && status != "pending",
		(status == "delivered") != (j["delivered_at"] != nil),
		status == "delivered" && (!Same(j["last_status_code"], 200) && !Same(j["last_status_code"], 201) && !Same(j["last_status_code"], 204) || j["last_error"] != nil),
		(status == "failed" || status == "dead") && j["last_error"] == nil, status == "dead" && attempts < 1,
		status == "pending" && (attempts != 0 || ended),
		ended != (j["last_duration_ms"] != nil), attempts > attemptsMax:
		t.Errorf("the fields of a job contradict each other: %v", j)
	}
	return j
}

// waitForStatus waits until the job of a message has a status.
func (h *hook) waitForStatus(m obj, status string) obj {
	h.agent.T.Helper()
	var j obj
	deadline := time.Now().Add(30 * time.Second)
	for j = h.job(m); j == nil || j["status"] != status; j = h.job(m) {
		if time.Now().After(deadline) {
			h.agent.T.Fatalf("the job is not %s after 30 s: %v", status, j)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return j
}

// waitForCounts waits until the summary has these counts: delivered, failed, dead, pending.
func (h *hook) waitForCounts(delivered, failed, dead, pending int) {
	h.agent.T.Helper()
	want := obj{"total": delivered + failed + dead + pending, "delivered": delivered, "failed": failed, "dead": dead, "pending": pending}
	var got *Answer
	deadline := time.Now().Add(30 * time.Second)
	for {
		if got = h.agent.Get(h.path("/deliveries/summary")).Want(200); Same(got.Body, want) {
			return
		}
		if time.Now().After(deadline) {
			got.Fatalf("want the summary %v", want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// retry requests an immediate attempt of a job and checks nothing.
func (h *hook) retry(job obj) *Answer {
	return h.agent.Post(h.path("/deliveries/"+Text(job, "id")+"/retry"), nil)
}

// between returns the time from one field of an object to another.
func between(t testing.TB, o obj, from, to string) time.Duration {
	t.Helper()
	return Moment(t, o, to).Sub(Moment(t, o, from))
}

func Moment(t testing.TB, o obj, field string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, Text(o, field))
	if err != nil {
		t.Fatalf("%s of %v: %v", field, o, err)
	}
	return at
}

// events returns the names of the events that a target received, in order.
func (x *target) events() string {
	var names []string
	for _, d := range x.deliveries() {
		names = append(names, Text(d.body, "event"))
	}
	return strings.Join(names, " ")
}
