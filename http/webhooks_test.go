package http

import (
	"encoding/base64"
	"encoding/json"
	"io"
	stdhttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/actors/encoding"
	"parley/client/deliveries"
	"parley/client/parley"
	"parley/http/access"
)

// target is the server to which a harness sends webhooks.
type target struct {
	*httptest.Server
	got chan posted
}

// posted is a delivery as it was received.
type posted struct {
	head stdhttp.Header
	body string
}

// newTarget answers each delivery with the next status, and with the last one from then
// on.
func newTarget(t *testing.T, statuses ...int) *target {
	s := &target{got: make(chan posted, 64)}
	next := make(chan int, len(statuses))
	for _, status := range statuses {
		next <- status
	}
	s.Server = httptest.NewServer(stdhttp.HandlerFunc(func(w stdhttp.ResponseWriter, r *stdhttp.Request) {
		body, _ := io.ReadAll(r.Body)
		status := statuses[len(statuses)-1]
		select {
		case status = <-next:
		default:
		}
		w.WriteHeader(status)
		s.got <- posted{r.Header, string(body)}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *target) next(t *testing.T) posted {
	t.Helper()
	select {
	case p := <-s.got:
		return p
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was delivered")
		return posted{}
	}
}

// hook makes a webhook of an agent.
func (p *tenant) hook(agent, url, more string) *response {
	p.t.Helper()
	return p.ask("POST", "/webhooks", `{"agent_id":"`+agent+`","url":"`+url+`"`+more+`}`)
}

// until repeats a request until a member of the answer has the wanted value.
func (p *tenant) until(path, member string, want any) *response {
	p.t.Helper()
	wanted, _ := json.Marshal(want)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		a := p.ask("GET", path, "").want(200)
		if got, _ := json.Marshal(a.at(member)); string(got) == string(wanted) {
			return a
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %s did not become %s: %s", path, member, wanted, a.raw)
		}
	}
}

func TestWebhookIsCreatedAndListed(t *testing.T) {
	g := newGroupHarness(t)
	made := g.first.hook(g.ann, "https://EXAMPLE.com", `,"events":["message.read","message.received","message.read"],"description":"mine"`).want(201)
	made.is(map[string]any{
		"agent_id": g.ann, "url": "https://EXAMPLE.com", "active": true, "events": []string{"message.received", "message.read"},
		"description": "mine", "disabled_at": nil, "disabled_reason": nil,
	})
	if secret := made.text("secret"); !strings.HasPrefix(secret, "whsec_") || len(secret) != 50 {
		t.Errorf("the secret is %q", secret)
	}
	g.first.hook(g.ann, "https://example.com:443/", "").want(409, "duplicate_webhook")
	other := g.first.hook(g.art, "https://example.com/", "").want(201)
	other.is(map[string]any{"events": []string{"message.received"}, "description": nil})

	all := g.first.ask("GET", "/webhooks", "").want(200)
	all.is(map[string]any{"0.id": made.text("id"), "1.id": other.text("id")})
	if strings.Contains(string(all.raw), "secret") || all.len("") != 2 {
		t.Errorf("the list is %s", all.raw)
	}
	g.first.ask("GET", "/webhooks?agent_id="+g.art, "").want(200).is(map[string]any{"0.id": other.text("id")})
	g.second.ask("GET", "/webhooks", "").want(200).is(map[string]any{})
	g.second.ask("GET", "/webhooks?agent_id="+g.art, "").want(403, "not_owner")
	g.first.ask("GET", "/webhooks?agent_id="+made.text("id"), "").want(404, "not_found")

	path := "/webhooks/" + made.text("id")
	g.first.ask("PATCH", path, `{"active":false}`).want(200).is(map[string]any{"active": false, "disabled_reason": nil})
	g.first.ask("PATCH", path, `{}`).want(422)
	if n := g.first.ask("GET", "/webhooks", "").want(200).len(""); n != 1 {
		t.Errorf("%d webhooks are active", n)
	}
	if n := g.first.ask("GET", "/webhooks?include_inactive=true", "").want(200).len(""); n != 2 {
		t.Errorf("there are %d webhooks", n)
	}
	g.first.ask("POST", path+"/test", "").want(409, "invalid_transition").is(map[string]any{"current_status": "inactive", "allowed": []string{"active"}})
	g.first.ask("DELETE", path, "").want(204)
	g.first.ask("DELETE", path, "").want(204)
	g.first.hook(g.ann, "https://example.com/", "").want(201)
}

func TestWebhookTargetsAreJudged(t *testing.T) {
	g := newGroupHarness(t)
	for url, code := range map[string]string{
		"ftp://example.com/": "validation_error", "https://user@example.com/": "validation_error", "https://example.com/#f": "validation_error",
		"https://": "validation_error", "https://10.0.0.1/": "ssrf_blocked", "https://0x0a.1/": "ssrf_blocked",
		"https://169.254.169.254/latest/meta-data": "ssrf_blocked", "https://[::ffff:10.0.0.1]/": "ssrf_blocked",
	} {
		a := g.first.hook(g.ann, url, "").want(422, code)
		a.is(map[string]any{"error": code, "detail.0.loc": []string{"body", "url"}, "detail.0.type": "value_error"})
	}
	g.first.hook(g.ann, "https://example.com/", `,"events":["message.sent"]`).want(422, "validation_error").
		is(map[string]any{"detail.0.loc": []any{"body", "events", 0}, "detail.0.type": "enum"})
	g.first.hook(g.bob, "https://example.com/", "").want(403, "not_owner")
	g.first.hook("01900000-0000-7000-8000-000000000000", "https://example.com/", "").want(404, "not_found")
	g.first.ask("DELETE", "/agents/"+g.art, "").want(204)
	g.first.hook(g.art, "https://example.com/", "").want(410, "gone")
}

func TestWebhookDelivers(t *testing.T) {
	g := newGroupHarness(t)
	to := newTarget(t, 200)
	made := g.first.hook(g.ann, to.URL+"/hook", "").want(201)
	path := "/webhooks/" + made.text("id")
	sent := g.second.ask("POST", "/messages", `{"to_agent_id":"`+g.ann+`","type":"a.b.c","encrypted_payload":"AAAA"}`).want(201)

	got := to.next(t)
	d, err := deliveries.Open(made.text("secret"), "svc", got.head, []byte(got.body), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"message_id":"` + sent.text("id") + `","agent_id":"` + g.ann + `","event":"message.received","timestamp":"` + d.Timestamp.String() + `"}`
	if got.body != want {
		t.Errorf("the body is\n%s, want\n%s", got.body, want)
	}
	g.first.until(path+"/deliveries", "items.0.status", "delivered").is(map[string]any{
		"total": 1, "limit": 20, "offset": 0, "items.0.id": d.ID, "items.0.webhook_id": made.text("id"), "items.0.agent_id": g.ann,
		"items.0.message_id": sent.text("id"), "items.0.event": "message.received", "items.0.attempts": 1, "items.0.max_attempts": 8,
		"items.0.next_attempt_at": nil, "items.0.last_status_code": 200, "items.0.last_error": nil,
	})
	g.first.ask("POST", path+"/deliveries/"+d.ID+"/retry", "").want(409, "invalid_transition").is(map[string]any{"current_status": "delivered"})
	g.first.ask("GET", path+"/deliveries/summary", "").want(200).is(map[string]any{"total": 1, "delivered": 1, "failed": 0, "dead": 0, "pending": 0})
	for query, status := range map[string]int{"status=sent": 422, "limit=0": 422, "limit=101": 422, "offset=-1": 422, "status=dead&limit=100&offset=9": 200} {
		g.first.ask("GET", path+"/deliveries?"+query, "").want(status)
	}

	rotated := g.first.ask("POST", path+"/rotate-secret", "").want(200)
	g.first.ask("POST", path+"/test", "").want(200).is(map[string]any{"event": "webhook.test", "message_id": nil})
	got = to.next(t)
	for _, secret := range []string{made.text("secret"), rotated.text("secret")} {
		d, err := deliveries.Open(secret, "svc", got.head, []byte(got.body), time.Now())
		if err != nil || d.MessageID != nil || d.Event != "webhook.test" {
			t.Errorf("after a rotation: %+v, %v", d, err)
		}
	}
	if made.text("secret") == rotated.text("secret") {
		t.Error("the rotation changed nothing")
	}
}

func TestWebhookFailsAndIsRetriedByHand(t *testing.T) {
	g := newGroupHarness(t)
	to := newTarget(t, 500, 200)
	path := "/webhooks/" + g.first.hook(g.ann, to.URL, "").want(201).text("id")
	job := g.first.ask("POST", path+"/test", "").want(200).text("id")
	failed := g.first.until(path+"/deliveries?status=failed", "total", 1)
	failed.is(map[string]any{"items.0.last_status_code": 500, "items.0.last_error": "HTTP 500 Internal Server Error", "items.0.delivered_at": nil})
	if failed.at("items.0.next_attempt_at") == nil {
		t.Error("no retry is scheduled")
	}
	g.first.ask("POST", path+"/deliveries/"+job+"/retry", "").want(200).is(map[string]any{"id": job})
	g.first.until(path+"/deliveries/summary", "delivered", 1).is(map[string]any{"total": 1, "failed": 0})
	first, second := to.next(t), to.next(t)
	if first.head.Get("Webhook-Id") != job || second.head.Get("Webhook-Id") != job {
		t.Error("the attempts of a job have different ids")
	}
}

func TestOwnersAreNotifiedOfDisabledWebhooks(t *testing.T) {
	g := newGroupHarness(t)
	id := g.first.hook(g.ann, newTarget(t, 410).URL, "").want(201).text("id")
	g.first.ask("GET", "/agents/"+g.ann, "").want(200).is(map[string]any{"warnings": []any{}})
	g.first.ask("POST", "/webhooks/"+id+"/test", "").want(200)
	off := g.first.until("/webhooks?include_inactive=true", "0.active", false)
	off.is(map[string]any{"0.disabled_reason": "target_gone"})
	if off.at("0.disabled_at") == nil {
		t.Error("the time since when it is off is missing")
	}
	g.first.ask("GET", "/webhooks/"+id+"/deliveries?status=dead", "").want(200).is(map[string]any{"items.0.last_status_code": 410})
	g.first.ask("GET", "/agents/"+g.ann, "").want(200).is(map[string]any{
		"warnings": []string{"The webhook " + id + " was switched off: its target answered 410 Gone."},
	})
	g.first.ask("PATCH", "/webhooks/"+id, `{"active":true}`).want(200).is(map[string]any{"active": true, "disabled_at": nil, "disabled_reason": nil})
	g.first.ask("GET", "/agents/"+g.ann, "").want(200).is(map[string]any{"warnings": []any{}})
}

func TestWebhooksOfAnAgentAreCounted(t *testing.T) {
	g := newGroupHarness(t)
	g.service.Quotas = access.Quotas("public")
	g.service.webhooks.Quotas, g.service.ofOrgs.Quotas = access.Quotas("public"), access.Quotas("public")
	for _, path := range []string{"a", "b", "c"} {
		g.first.hook(g.ann, "https://example.com/"+path, "").want(201)
	}
	over := g.first.hook(g.ann, "https://example.com/d", "").want(403, "quota_exceeded")
	over.is(map[string]any{"quota": "webhooks_per_agent", "limit": 3, "used": 3})
	g.first.hook(g.ann, "https://example.com/a", "").want(409, "duplicate_webhook")
	g.first.hook(g.art, "https://example.com/d", "").want(201)
	list := g.first.ask("GET", "/webhooks?agent_id="+g.ann, "").want(200)
	g.first.ask("DELETE", "/webhooks/"+list.text("1.id"), "").want(204)
	g.first.hook(g.ann, "https://example.com/d", "").want(201)
	quota := g.first.ask("GET", "/org/quotas", "").want(200)
	quota.is(map[string]any{"quotas.webhooks_per_agent": map[string]any{"limit": 3, "used": nil}})
}

// TestSecretsOfWebhooksAreSealed looks for a secret in the stored data.
func TestSecretsOfWebhooksAreSealed(t *testing.T) {
	g := newGroupHarness(t)
	made := g.first.hook(g.ann, "https://example.com/", `,"description":"canary"`).want(201)
	rotated := g.first.ask("POST", "/webhooks/"+made.text("id")+"/rotate-secret", "").want(200)
	of, err := parley.ParseID[parley.AgentID](g.ann)
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := g.node.Webhooks.Of(t.Context(), of)
	if err != nil || len(webhooks) != 1 {
		t.Fatal(webhooks, err)
	}
	stored, err := encoding.Marshal(webhooks[0])
	if err != nil || !strings.Contains(string(stored), "canary") {
		t.Fatalf("%q, %v", stored, err)
	}
	for _, secret := range []string{made.text("secret"), rotated.text("secret")} {
		raw, _ := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
		if strings.Contains(string(stored), secret[len("whsec_"):]) || strings.Contains(string(stored), string(raw)) {
			t.Errorf("the secret is stored in the clear: %q", stored)
		}
	}
}
