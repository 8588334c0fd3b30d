package blackbox

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWebhookDelivers(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(200))
		h.waitForCounts(0, 0, 0, 0)
		m := a.Send(b)
		d := h.to.waitForDelivery(t, 1).judged(t, h)
		Exactly(t, "the payload", d.body, "message_id agent_id event timestamp")
		if d.body["event"] != "message.received" || d.body["message_id"] != m["id"] {
			t.Errorf("the payload of %v is %s", m["id"], d.raw)
		}
		if at := Moment(t, d.body, "timestamp"); at.Sub(Moment(t, m, "created_at")).Abs() > time.Second {
			t.Errorf("of a message of %v the payload has %v", m["created_at"], at)
		}
		j := h.waitForStatus(m, "delivered")
		if j["id"] != d.header.Get("Webhook-Id") || j["event"] != "message.received" || !Same(j["attempts"], 1) || !Same(j["last_status_code"], 200) {
			t.Errorf("the job of delivery %s is %v", d.header.Get("Webhook-Id"), j)
		}
		if between(t, j, "created_at", "last_attempt_at") < 0 || between(t, j, "last_attempt_at", "delivered_at") < 0 {
			t.Errorf("the times of a job are out of order: %v", j)
		}
		h.waitForCounts(1, 0, 0, 0)
		// A webhook delivery marks the message as delivered for both organizations, but
		// it carries no body: the stream and the long poll still return it.
		Marked(t, a, m, "delivered")
		b.Stream("").Messages(Text(m, "id"))
		h.to.checkNoMore(t, 1)
	})
}

func TestAllWebhooksOfAnAgentAreNotified(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		bystander := b.Org.Agent("bystander").listens()
		sender := a.listens()
		var all []*hook
		for range 3 {
			all = append(all, b.listens())
		}
		var sent []string
		for range 10 {
			sent = append(sent, Text(a.Send(b), "id"))
		}
		for _, h := range all {
			h.waitForCounts(10, 0, 0, 0)
			var told []string
			for _, d := range h.to.deliveries() {
				told = append(told, Text(d.judged(t, h).body, "message_id"))
			}
			slices.Sort(told)
			slices.Sort(sent)
			if !slices.Equal(told, sent) {
				t.Errorf("announced %v, want %v", told, sent)
			}
			if jobs := h.jobs("delivered"); len(jobs) != 10 || !slices.IsSortedFunc(jobs, func(x, y obj) int { return strings.Compare(Text(y, "created_at"), Text(x, "created_at")) }) {
				t.Errorf("want ten jobs, newest first: %v", jobs)
			}
		}
		bystander.waitForCounts(0, 0, 0, 0)
		sender.waitForCounts(0, 0, 0, 0)
	})
}

func TestDeliveriesPages(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens()
		for range 25 {
			a.Send(b)
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
			page := b.Get(h.path("/deliveries"+c.query)).Want(200).Is("limit", c.limit, "offset", c.offset, "total", c.total)
			rows, _ := page.At("items").([]any)
			if len(rows) != c.items {
				page.Errorf("%d items, want %d", len(rows), c.items)
			}
			if c.items > 0 && !Same(rows, all[c.offset:c.offset+c.items]) {
				page.Errorf("the page is not a part of the whole")
			}
		}
		for query, loc := range map[string]string{"limit=0": "query.limit", "limit=101": "query.limit", "limit=x": "query.limit", "offset=-1": "query.offset", "status=new": "query.status"} {
			b.Get(h.path("/deliveries?"+query)).As("%s", query).Invalid(loc, "")
		}
	})
}

func TestWebhookListing(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		first, second := a.listens(), a.hook(theSink(t).target(), obj{"description": "the second", "events": []string{"message.read", "message.received"}})
		third := b.listens()
		off := b.listens()
		off.setActive(false)
		listed := func(query string, want ...*hook) {
			t.Helper()
			answered := o.Get("/webhooks" + query).Want(200)
			var got, ids []string
			for _, row := range Objects(answered.List) {
				Exactly(t, "a row", row, hookFields)
				got = append(got, Text(row, "id"))
			}
			for _, h := range want {
				ids = append(ids, h.id)
			}
			slices.Sort(got)
			slices.Sort(ids)
			if answered.List == nil || !slices.Equal(got, ids) {
				answered.Errorf("want the webhooks %v", ids)
			}
		}
		listed("", first, second, third)
		listed("?include_inactive=true", first, second, third, off)
		listed("?agent_id="+a.ID, first, second)
		listed("?agent_id="+b.ID, third)
		listed("?include_inactive=true&agent_id="+b.ID, third, off)
		listed("?agent_id=" + o.Agent("c").ID)
		row := second.read()
		if row["description"] != "the second" || !SameSet(row["events"].([]any), []any{"message.received", "message.read"}) {
			t.Errorf("the webhook is %v", row)
		}
		if !Same(first.read()["events"], []string{"message.received"}) {
			t.Errorf("without a filter the webhook subscribes to %v", first.read()["events"])
		}
		o.Delete(third.path("")).Want(204)
		listed("?include_inactive=true", first, second, off)
		for _, a := range []*Answer{
			o.Delete(third.path("")), o.Patch(third.path(""), obj{"active": true}), o.Get(third.path("/deliveries")),
			o.Get(third.path("/deliveries/summary")), o.Post(third.path("/test"), nil), o.Post(third.path("/rotate-secret"), nil),
		} {
			a.As("deleted").Refused(404, "not_found")
		}
	})
}

// TestWebhooksArePrivate: another organization gets the same answer for a webhook as for
// an unknown id.
func TestWebhooksArePrivate(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h := b.listens(says(500))
		j := h.waitForStatus(a.Send(b), "failed")
		unknown := &hook{agent: b, id: Nobody}
		for _, ask := range []func(h *hook) *Answer{
			func(h *hook) *Answer { return a.Patch(h.path(""), obj{"active": false}) },
			func(h *hook) *Answer { return a.Delete(h.path("")) },
			func(h *hook) *Answer { return a.Get(h.path("/deliveries")) },
			func(h *hook) *Answer { return a.Get(h.path("/deliveries/summary")) },
			func(h *hook) *Answer { return a.Post(h.path("/test"), nil) },
			func(h *hook) *Answer { return a.Post(h.path("/rotate-secret"), nil) },
			func(h *hook) *Answer { return a.Post(h.path("/deliveries/"+Text(j, "id")+"/retry"), nil) },
		} {
			x, y := ask(h).As("another's").Refused(404, "not_found"), ask(unknown).As("unknown").Refused(404, "not_found")
			delete(x.Body, "request_id")
			delete(y.Body, "request_id")
			if !Same(x.Body, y.Body) {
				x.Errorf("another's webhook is told from an unknown one: %v", y.Body)
			}
		}
		a.Get("/webhooks?agent_id="+b.ID).As("of another's agent").Refused(403, "not_owner")
		a.Get("/webhooks?agent_id="+Nobody).As("of nobody").Refused(404, "not_found")
		a.hooksAt(h.to.url, obj{"agent_id": b.ID}).Refused(403, "not_owner")
		a.hooksAt(h.to.url, obj{"agent_id": Nobody}).Refused(404, "not_found")
		if list := a.Get("/webhooks?include_inactive=true").Want(200).List; len(list) != 0 {
			t.Errorf("another organization lists %v", list)
		}
		for _, row := range Objects(a.Get("/messages/" + Text(j, "message_id") + "/trace").Want(200).Body["attempts"].([]any)) {
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
	hooks(t, func(t *testing.T, s *Server) {
		g := s.Org(t).Agent("g")
		good := theSink(t).target().url
		for _, c := range []struct {
			body obj
			loc  string
			kind string
		}{
			{obj{"url": good}, "body.agent_id", "missing"},
			{obj{"agent_id": g.ID}, "body.url", "missing"},
			{obj{"agent_id": nil, "url": good}, "body.agent_id", ""},
			{obj{"agent_id": g.ID, "url": nil}, "body.url", ""},
			{obj{"agent_id": "bob", "url": good}, "body.agent_id", "uuid_parsing"},
			{obj{"agent_id": g.ID, "url": 7}, "body.url", ""},
			{obj{"agent_id": g.ID, "url": ""}, "body.url", ""},
			{obj{"agent_id": g.ID, "url": good, "events": "message.received"}, "body.events", ""},
			{obj{"agent_id": g.ID, "url": good, "events": []string{"message.sent"}}, "body.events", ""},
			{obj{"agent_id": g.ID, "url": good, "events": []string{"message_received"}}, "body.events", ""},
			{obj{"agent_id": g.ID, "url": good, "events": []any{7}}, "body.events", ""},
			{obj{"agent_id": g.ID, "url": good, "description": 7}, "body.description", ""},
		} {
			g.Post("/webhooks", c.body).As("%v", c.body).Invalid(c.loc, c.kind)
		}
		h := g.hook(theSink(t).target(), obj{"more": "is ignored", "description": nil, "events": nil})
		for _, body := range []obj{{}, {"active": nil}, {"active": "true"}, {"active": 1}} {
			g.Patch(h.path(""), body).As("%v", body).Invalid("body.active", "")
		}
		g.Patch("/webhooks/nothing", obj{"active": true}).Invalid("path", "uuid_parsing")
		g.Get(h.path("/deliveries?status=")).Invalid("query.status", "")
		g.Post(h.path("/deliveries/"+Nobody+"/retry"), nil).Refused(404, "not_found")
		for _, text := range []string{"http://user:secret@", "https://user:secret@"} {
			g.hooksAt(text+"hooks.example.org/").As("%s", text).Invalid("body.url", "value_error")
		}
	})
}

func TestDuplicateWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		to := theSink(t).target()
		h := a.hook(to)
		a.hooksAt(to.url).Refused(409, "duplicate_webhook")
		a.hooksAt(strings.Replace(to.url, "https://", "HTTPS://", 1)).As("spelled otherwise").Refused(409, "duplicate_webhook")
		a.hooksAt(to.url, obj{"events": []string{"message.read"}}).As("for other events").Refused(409, "duplicate_webhook")
		b.hook(to)
		a.hooksAt(to.url + "?another").Want(201)
		h.setActive(false)
		a.hooksAt(to.url).As("inactive").Refused(409, "duplicate_webhook")
		a.Delete(h.path("")).Want(204)
		again := a.hook(to)
		if again.secret == h.secret || again.id == h.id {
			t.Error("a recreated webhook has the id or the secret of the old one")
		}
		raced := theSink(t).target().url
		made := 0
		for _, answered := range Concurrently(8, func(int) *Answer { return a.hooksAt(raced) }) {
			if answered.Status == 201 {
				made++
			} else {
				answered.Refused(409, "duplicate_webhook")
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
	Own(t, func(t *testing.T, journals string) {
		s := Start(t, "--journals", journals, "--webhook-ca", theSink(t).caFile, "--quota-profile", "public")
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		o.Get("/org/quotas").Want(200).Is("quotas.webhooks_per_agent.limit", 3)
		var made []string
		for _, answered := range Concurrently(12, func(int) *Answer { return a.hooksAt(theSink(t).target().url) }) {
			if answered.Status == 201 {
				made = append(made, answered.Str("id"))
			} else {
				answered.Refused(403, "quota_exceeded").Is("quota", "webhooks_per_agent", "limit", 3, "used", 3)
			}
		}
		if len(made) != 3 {
			t.Fatalf("%d webhooks, want 3", len(made))
		}
		b.listens()
		a.Patch("/webhooks/"+made[0], obj{"active": false}).Want(200)
		a.hooksAt(theSink(t).target().url).As("one is off").Refused(403, "quota_exceeded")
		a.Delete("/webhooks/" + made[0]).Want(204)
		a.listens()
		a.hooksAt(theSink(t).target().url).As("full again").Refused(403, "quota_exceeded")
	})
}

func TestRevokedAgentsHaveNoWebhooks(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		h, broken := b.listens(), b.listens(says(500))
		m := a.Send(b)
		h.waitForStatus(m, "delivered")
		failed := broken.waitForStatus(m, "failed")
		b.Delete(b.Path("")).Want(204)
		Eventually(t, "the webhooks are inactive", func() bool { return h.read()["active"] == false && broken.read()["active"] == false })
		if row := h.read(); row["disabled_at"] == nil || row["disabled_reason"] == nil {
			t.Errorf("the webhook does not state why it is inactive: %v", row)
		}
		b.hooksAt(theSink(t).target().url).Refused(410, "gone")
		b.Patch(h.path(""), obj{"active": true}).As("switched on").Refused(410, "gone")
		b.Post(h.path("/test"), nil).As("test").Refused(410, "gone")
		broken.retry(failed).As("retry").Refused(410, "gone")
		h.waitForCounts(1, 0, 0, 0)
		b.Delete(h.path("")).Want(204)
		broken.to.checkNoMore(t, 1)
	})
}

// TestManyWebhooksOfManyAgents distributes agents over all journals.
func TestManyWebhooksOfManyAgents(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		from := s.Org(t).Agent("from")
		o := s.Org(t)
		recipients := o.NewAgents(24, "h")
		hs := ConcurrentlyBounded(len(recipients), func(i int) *hook { return recipients[i].listens() })
		ForEachBounded(len(recipients)*5, func(i int) { from.TrySend(recipients[i%len(recipients)], nil).Want(201) })
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
