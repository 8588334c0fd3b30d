package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWebhookDelivers(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h := b.listens(says(200))
		h.waitForCounts(0, 0, 0, 0)
		m := a.send(b)
		d := h.to.waitForDelivery(t, 1).judged(t, h)
		exactly(t, "the payload", d.body, "message_id agent_id event timestamp")
		if d.body["event"] != "message.received" || d.body["message_id"] != m["id"] {
			t.Errorf("the payload of %v is %s", m["id"], d.raw)
		}
		if at := moment(t, d.body, "timestamp"); at.Sub(moment(t, m, "created_at")).Abs() > time.Second {
			t.Errorf("of a message of %v the payload has %v", m["created_at"], at)
		}
		j := h.waitForStatus(m, "delivered")
		if j["id"] != d.header.Get("Webhook-Id") || j["event"] != "message.received" || !same(j["attempts"], 1) || !same(j["last_status_code"], 200) {
			t.Errorf("the job of delivery %s is %v", d.header.Get("Webhook-Id"), j)
		}
		if between(t, j, "created_at", "last_attempt_at") < 0 || between(t, j, "last_attempt_at", "delivered_at") < 0 {
			t.Errorf("the times of a job are out of order: %v", j)
		}
		h.waitForCounts(1, 0, 0, 0)
		// A webhook delivery marks the message as delivered for both organizations, but
		// it carries no body: the stream and the long poll still return it.
		marked(t, a, m, "delivered")
		b.stream("").messages(text(m, "id"))
		h.to.checkNoMore(t, 1)
	})
}

func TestAllWebhooksOfAnAgentAreNotified(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		bystander := b.org.agent("bystander").listens()
		sender := a.listens()
		var all []*hook
		for range 3 {
			all = append(all, b.listens())
		}
		var sent []string
		for range 10 {
			sent = append(sent, text(a.send(b), "id"))
		}
		for _, h := range all {
			h.waitForCounts(10, 0, 0, 0)
			var told []string
			for _, d := range h.to.deliveries() {
				told = append(told, text(d.judged(t, h).body, "message_id"))
			}
			slices.Sort(told)
			slices.Sort(sent)
			if !slices.Equal(told, sent) {
				t.Errorf("announced %v, want %v", told, sent)
			}
			if jobs := h.jobs("delivered"); len(jobs) != 10 || !slices.IsSortedFunc(jobs, func(x, y obj) int { return strings.Compare(text(y, "created_at"), text(x, "created_at")) }) {
				t.Errorf("want ten jobs, newest first: %v", jobs)
			}
		}
		bystander.waitForCounts(0, 0, 0, 0)
		sender.waitForCounts(0, 0, 0, 0)
	})
}

func TestDeliveriesPages(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h := b.listens()
		for range 25 {
			a.send(b)
		}
		h.waitForCounts(25, 0, 0, 0)
		all := h.jobs("")
		for _, c := range []struct {
			query                string
			limit, offset, items int
			total                int
		}{
			{"", 20, 0, 20, 25},
			{"?limit=10", 10, 0, 10, 25},
			{"?limit=10&offset=20", 10, 20, 5, 25},
			{"?offset=25", 20, 25, 0, 25},
			{"?offset=1000", 20, 1000, 0, 25},
			{"?limit=100&status=delivered", 100, 0, 25, 25},
			{"?status=dead", 20, 0, 0, 0},
			{"?status=pending", 20, 0, 0, 0},
			{"?status=failed", 20, 0, 0, 0},
			{"?status=processing", 20, 0, 0, 0},
		} {
			page := b.get(h.path("/deliveries"+c.query)).want(200).is("limit", c.limit, "offset", c.offset, "total", c.total)
			rows, _ := page.at("items").([]any)
			if len(rows) != c.items {
				page.errorf("%d items, want %d", len(rows), c.items)
			}
			if c.items > 0 && !same(rows, all[c.offset:c.offset+c.items]) {
				page.errorf("the page is not a part of the whole")
			}
		}
		for query, loc := range map[string]string{"limit=0": "query.limit", "limit=101": "query.limit", "limit=x": "query.limit", "offset=-1": "query.offset", "status=new": "query.status"} {
			b.get(h.path("/deliveries?"+query)).as("%s", query).invalid(loc, "")
		}
	})
}

func TestWebhookListing(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		first, second := a.listens(), a.hook(theSink(t).target(), obj{"description": "the second", "events": []string{"message.read", "message.received"}})
		third := b.listens()
		off := b.listens()
		off.setActive(false)
		listed := func(query string, want ...*hook) {
			t.Helper()
			answered := o.get("/webhooks" + query).want(200)
			var got, ids []string
			for _, row := range objects(answered.list) {
				exactly(t, "a row", row, hookFields)
				got = append(got, text(row, "id"))
			}
			for _, h := range want {
				ids = append(ids, h.id)
			}
			slices.Sort(got)
			slices.Sort(ids)
			if answered.list == nil || !slices.Equal(got, ids) {
				answered.errorf("want the webhooks %v", ids)
			}
		}
		listed("", first, second, third)
		listed("?include_inactive=true", first, second, third, off)
		listed("?agent_id="+a.id, first, second)
		listed("?agent_id="+b.id, third)
		listed("?include_inactive=true&agent_id="+b.id, third, off)
		listed("?agent_id=" + o.agent("c").id)
		row := second.read()
		if row["description"] != "the second" || !sameSet(row["events"].([]any), []any{"message.received", "message.read"}) {
			t.Errorf("the webhook is %v", row)
		}
		if !same(first.read()["events"], []string{"message.received"}) {
			t.Errorf("without a filter the webhook subscribes to %v", first.read()["events"])
		}
		o.delete(third.path("")).want(204)
		listed("?include_inactive=true", first, second, off)
		for _, a := range []*answer{
			o.delete(third.path("")), o.patch(third.path(""), obj{"active": true}), o.get(third.path("/deliveries")),
			o.get(third.path("/deliveries/summary")), o.post(third.path("/test"), nil), o.post(third.path("/rotate-secret"), nil),
		} {
			a.as("deleted").refused(404, "not_found")
		}
	})
}

// TestWebhooksArePrivate: another organization gets the same answer for a webhook as for
// an unknown id.
func TestWebhooksArePrivate(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h := b.listens(says(500))
		j := h.waitForStatus(a.send(b), "failed")
		unknown := &hook{agent: b, id: nobody}
		for _, ask := range []func(h *hook) *answer{
			func(h *hook) *answer { return a.patch(h.path(""), obj{"active": false}) },
			func(h *hook) *answer { return a.delete(h.path("")) },
			func(h *hook) *answer { return a.get(h.path("/deliveries")) },
			func(h *hook) *answer { return a.get(h.path("/deliveries/summary")) },
			func(h *hook) *answer { return a.post(h.path("/test"), nil) },
			func(h *hook) *answer { return a.post(h.path("/rotate-secret"), nil) },
			func(h *hook) *answer { return a.post(h.path("/deliveries/"+text(j, "id")+"/retry"), nil) },
		} {
			x, y := ask(h).as("another's").refused(404, "not_found"), ask(unknown).as("unknown").refused(404, "not_found")
			delete(x.body, "request_id")
			delete(y.body, "request_id")
			if !same(x.body, y.body) {
				x.errorf("another's webhook is told from an unknown one: %v", y.body)
			}
		}
		a.get("/webhooks?agent_id="+b.id).as("of another's agent").refused(403, "not_owner")
		a.get("/webhooks?agent_id="+nobody).as("of nobody").refused(404, "not_found")
		a.hooksAt(h.to.url, obj{"agent_id": b.id}).refused(403, "not_owner")
		a.hooksAt(h.to.url, obj{"agent_id": nobody}).refused(404, "not_found")
		if list := a.get("/webhooks?include_inactive=true").want(200).list; len(list) != 0 {
			t.Errorf("another organization lists %v", list)
		}
		for _, row := range objects(a.get("/messages/" + text(j, "message_id") + "/trace").want(200).body["attempts"].([]any)) {
			if row["channel"] == "webhook" {
				t.Errorf("the sender's trace shows %v", row)
			}
		}
		if !h.read()["active"].(bool) {
			t.Error("a request of another organization had an effect")
		}
	})
}

func TestWebhookBodies(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("g")
		good := theSink(t).target().url
		for _, c := range []struct {
			body obj
			loc  string
			kind string
		}{
			{obj{"url": good}, "body.agent_id", "missing"},
			{obj{"agent_id": g.id}, "body.url", "missing"},
			{obj{"agent_id": nil, "url": good}, "body.agent_id", ""},
			{obj{"agent_id": g.id, "url": nil}, "body.url", ""},
			{obj{"agent_id": "bob", "url": good}, "body.agent_id", "uuid_parsing"},
			{obj{"agent_id": g.id, "url": 7}, "body.url", ""},
			{obj{"agent_id": g.id, "url": ""}, "body.url", ""},
			{obj{"agent_id": g.id, "url": good, "events": "message.received"}, "body.events", ""},
			{obj{"agent_id": g.id, "url": good, "events": []string{"message.sent"}}, "body.events", ""},
			{obj{"agent_id": g.id, "url": good, "events": []string{"message_received"}}, "body.events", ""},
			{obj{"agent_id": g.id, "url": good, "events": []any{7}}, "body.events", ""},
			{obj{"agent_id": g.id, "url": good, "description": 7}, "body.description", ""},
		} {
			g.post("/webhooks", c.body).as("%v", c.body).invalid(c.loc, c.kind)
		}
		h := g.hook(theSink(t).target(), obj{"more": "is ignored", "description": nil, "events": nil})
		for _, body := range []obj{{}, {"active": nil}, {"active": "true"}, {"active": 1}} {
			g.patch(h.path(""), body).as("%v", body).invalid("body.active", "")
		}
		g.patch("/webhooks/nothing", obj{"active": true}).invalid("path", "uuid_parsing")
		g.get(h.path("/deliveries?status=")).invalid("query.status", "")
		g.post(h.path("/deliveries/"+nobody+"/retry"), nil).refused(404, "not_found")
		for _, text := range []string{"http://user:secret@", "https://user:secret@"} {
			g.hooksAt(text+"hooks.example.org/").as("%s", text).invalid("body.url", "value_error")
		}
	})
}

func TestDuplicateWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		to := theSink(t).target()
		h := a.hook(to)
		a.hooksAt(to.url).refused(409, "duplicate_webhook")
		a.hooksAt(strings.Replace(to.url, "https://", "HTTPS://", 1)).as("spelled otherwise").refused(409, "duplicate_webhook")
		a.hooksAt(to.url, obj{"events": []string{"message.read"}}).as("for other events").refused(409, "duplicate_webhook")
		b.hook(to)
		a.hooksAt(to.url + "?another").want(201)
		h.setActive(false)
		a.hooksAt(to.url).as("inactive").refused(409, "duplicate_webhook")
		a.delete(h.path("")).want(204)
		again := a.hook(to)
		if again.secret == h.secret || again.id == h.id {
			t.Error("a recreated webhook has the id or the secret of the old one")
		}
		raced := theSink(t).target().url
		made := 0
		for _, answered := range concurrently(8, func(int) *answer { return a.hooksAt(raced) }) {
			if answered.status == 201 {
				made++
			} else {
				answered.refused(409, "duplicate_webhook")
			}
		}
		if made != 1 {
			t.Errorf("%d webhooks of one url", made)
		}
	})
}

// TestWebhookQuota: an agent of a tier-1 organization has at most 3 webhooks, even under
// concurrent creation. Inactive webhooks count, deleted ones do not.
func TestWebhookQuota(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile, "--quota-profile", "public")
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		o.get("/org/quotas").want(200).is("quotas.webhooks_per_agent.limit", 3)
		var made []string
		for _, answered := range concurrently(12, func(int) *answer { return a.hooksAt(theSink(t).target().url) }) {
			if answered.status == 201 {
				made = append(made, answered.str("id"))
			} else {
				answered.refused(403, "quota_exceeded").is("quota", "webhooks_per_agent", "limit", 3, "used", 3)
			}
		}
		if len(made) != 3 {
			t.Fatalf("%d webhooks, want 3", len(made))
		}
		b.listens()
		a.patch("/webhooks/"+made[0], obj{"active": false}).want(200)
		a.hooksAt(theSink(t).target().url).as("one is off").refused(403, "quota_exceeded")
		a.delete("/webhooks/" + made[0]).want(204)
		a.listens()
		a.hooksAt(theSink(t).target().url).as("full again").refused(403, "quota_exceeded")
	})
}

func TestRevokedAgentsHaveNoWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		h, broken := b.listens(), b.listens(says(500))
		m := a.send(b)
		h.waitForStatus(m, "delivered")
		failed := broken.waitForStatus(m, "failed")
		b.delete(b.path("")).want(204)
		eventually(t, "the webhooks are inactive", func() bool { return h.read()["active"] == false && broken.read()["active"] == false })
		if row := h.read(); row["disabled_at"] == nil || row["disabled_reason"] == nil {
			t.Errorf("the webhook does not state why it is inactive: %v", row)
		}
		b.hooksAt(theSink(t).target().url).refused(410, "gone")
		b.patch(h.path(""), obj{"active": true}).as("switched on").refused(410, "gone")
		b.post(h.path("/test"), nil).as("test").refused(410, "gone")
		broken.retry(failed).as("retry").refused(410, "gone")
		h.waitForCounts(1, 0, 0, 0)
		b.delete(h.path("")).want(204)
		broken.to.checkNoMore(t, 1)
	})
}

// TestManyWebhooksOfManyAgents distributes agents over all journals.
func TestManyWebhooksOfManyAgents(t *testing.T) {
	hooks(t, func(t *testing.T, s *server) {
		from := s.org(t).agent("from")
		o := s.org(t)
		recipients := o.newAgents(24, "h")
		hs := concurrentlyBounded(len(recipients), func(i int) *hook { return recipients[i].listens() })
		forEachBounded(len(recipients)*5, func(i int) { from.trySend(recipients[i%len(recipients)], nil).want(201) })
		for i, h := range hs {
			h.waitForCounts(5, 0, 0, 0)
			seen := map[any]bool{}
			for _, d := range h.to.deliveries() {
				seen[d.judged(t, h).body["message_id"]] = true
			}
			if len(seen) != 5 {
				t.Errorf("agent %d was notified about %d messages, want 5", i, len(seen))
			}
		}
	})
}
