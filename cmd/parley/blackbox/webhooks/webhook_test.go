package webhooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

func TestWebhookDelivers(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hooktest.Says(200))
		h.WaitForCounts(0, 0, 0, 0)
		m := a.Send(b)
		d := h.To.WaitForDelivery(t, 1).Judged(t, h)
		kit.Exactly(t, "the payload", d.Body, "message_id agent_id event timestamp")
		if d.Body["event"] != "message.received" || d.Body["message_id"] != m["id"] {
			t.Errorf("the payload of %v is %s", m["id"], d.Raw)
		}
		if at := kit.Moment(t, d.Body, "timestamp"); at.Sub(kit.Moment(t, m, "created_at")).Abs() > time.Second {
			t.Errorf("of a message of %v the payload has %v", m["created_at"], at)
		}
		j := h.WaitForStatus(m, "delivered")
		if j["id"] != d.Header.Get("Webhook-Id") || j["event"] != "message.received" || !kit.Same(j["attempts"], 1) || !kit.Same(j["last_status_code"], 200) {
			t.Errorf("the job of delivery %s is %v", d.Header.Get("Webhook-Id"), j)
		}
		if between(t, j, "created_at", "last_attempt_at") < 0 || between(t, j, "last_attempt_at", "delivered_at") < 0 {
			t.Errorf("the times of a job are out of order: %v", j)
		}
		h.WaitForCounts(1, 0, 0, 0)
		// A webhook delivery marks the message as delivered for both organizations, but
		// it carries no body: the stream and the long poll still return it.
		kit.Marked(t, a, m, "delivered")
		b.Stream("").Messages(kit.Text(m, "id"))
		h.To.CheckNoMore(t, 1)
	})
}

func TestAllWebhooksOfAnAgentAreNotified(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		bystander := hooktest.Listening(b.Org.Agent("bystander"))
		sender := hooktest.Listening(a)
		var all []*hooktest.Hook
		for range 3 {
			all = append(all, hooktest.Listening(b))
		}
		var sent []string
		for range 10 {
			sent = append(sent, kit.Text(a.Send(b), "id"))
		}
		for _, h := range all {
			h.WaitForCounts(10, 0, 0, 0)
			var told []string
			for _, d := range h.To.Deliveries() {
				told = append(told, kit.Text(d.Judged(t, h).Body, "message_id"))
			}
			slices.Sort(told)
			slices.Sort(sent)
			if !slices.Equal(told, sent) {
				t.Errorf("announced %v, want %v", told, sent)
			}
			if jobs := h.Jobs("delivered"); len(jobs) != 10 || !slices.IsSortedFunc(jobs, func(x, y obj) int { return strings.Compare(kit.Text(y, "created_at"), kit.Text(x, "created_at")) }) {
				t.Errorf("want ten jobs, newest first: %v", jobs)
			}
		}
		bystander.WaitForCounts(0, 0, 0, 0)
		sender.WaitForCounts(0, 0, 0, 0)
	})
}

func TestDeliveriesPages(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b)
		for range 25 {
			a.Send(b)
		}
		h.WaitForCounts(25, 0, 0, 0)
		all := h.Jobs("")
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
			page := b.Get(h.Path("/deliveries"+c.query)).Want(200).Is("limit", c.limit, "offset", c.offset, "total", c.total)
			rows, _ := page.At("items").([]any)
			if len(rows) != c.items {
				page.Errorf("%d items, want %d", len(rows), c.items)
			}
			if c.items > 0 && !kit.Same(rows, all[c.offset:c.offset+c.items]) {
				page.Errorf("the page is not a part of the whole")
			}
		}
		for query, loc := range map[string]string{"limit=0": "query.limit", "limit=101": "query.limit", "limit=x": "query.limit", "offset=-1": "query.offset", "status=new": "query.status"} {
			b.Get(h.Path("/deliveries?"+query)).As("%s", query).Invalid(loc, "")
		}
	})
}

func TestWebhookListing(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		first, second := hooktest.Listening(a), hooktest.New(a, hooktest.SharedSink(t).Target(), obj{"description": "the second", "events": []string{"message.read", "message.received"}})
		third := hooktest.Listening(b)
		off := hooktest.Listening(b)
		off.SetActive(false)
		listed := func(query string, want ...*hooktest.Hook) {
			t.Helper()
			answered := o.Get("/webhooks" + query).Want(200)
			var got, ids []string
			for _, row := range kit.Objects(answered.List) {
				kit.Exactly(t, "a row", row, hooktest.Fields)
				got = append(got, kit.Text(row, "id"))
			}
			for _, h := range want {
				ids = append(ids, h.ID)
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
		row := second.Read()
		if row["description"] != "the second" || !kit.SameSet(row["events"].([]any), []any{"message.received", "message.read"}) {
			t.Errorf("the webhook is %v", row)
		}
		if !kit.Same(first.Read()["events"], []string{"message.received"}) {
			t.Errorf("without a filter the webhook subscribes to %v", first.Read()["events"])
		}
		o.Delete(third.Path("")).Want(204)
		o.Delete(third.Path("")).As("again").Want(204)
		s.Org(t).Delete(third.Path("")).As("again, by a stranger").Refused(404, "not_found")
		listed("?include_inactive=true", first, second, off)
		for _, a := range []*kit.Answer{
			o.Patch(third.Path(""), obj{"active": true}), o.Get(third.Path("/deliveries")),
			o.Get(third.Path("/deliveries/summary")), o.Post(third.Path("/test"), nil), o.Post(third.Path("/rotate-secret"), nil),
		} {
			a.As("deleted").Refused(404, "not_found")
		}
	})
}

// TestWebhooksArePrivate: another organization gets the same answer for a webhook as for
// an unknown id.
func TestWebhooksArePrivate(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h := hooktest.Listening(b, hooktest.Says(500))
		j := h.WaitForStatus(a.Send(b), "failed")
		unknown := &hooktest.Hook{Agent: b, ID: kit.Nobody}
		for _, ask := range []func(h *hooktest.Hook) *kit.Answer{
			func(h *hooktest.Hook) *kit.Answer { return a.Patch(h.Path(""), obj{"active": false}) },
			func(h *hooktest.Hook) *kit.Answer { return a.Delete(h.Path("")) },
			func(h *hooktest.Hook) *kit.Answer { return a.Get(h.Path("/deliveries")) },
			func(h *hooktest.Hook) *kit.Answer { return a.Get(h.Path("/deliveries/summary")) },
			func(h *hooktest.Hook) *kit.Answer { return a.Post(h.Path("/test"), nil) },
			func(h *hooktest.Hook) *kit.Answer { return a.Post(h.Path("/rotate-secret"), nil) },
			func(h *hooktest.Hook) *kit.Answer {
				return a.Post(h.Path("/deliveries/"+kit.Text(j, "id")+"/retry"), nil)
			},
		} {
			x, y := ask(h).As("another's").Refused(404, "not_found"), ask(unknown).As("unknown").Refused(404, "not_found")
			delete(x.Body, "request_id")
			delete(y.Body, "request_id")
			if !kit.Same(x.Body, y.Body) {
				x.Errorf("another's webhook is told from an unknown one: %v", y.Body)
			}
		}
		a.Get("/webhooks?agent_id="+b.ID).As("of another's agent").Refused(403, "not_owner")
		a.Get("/webhooks?agent_id="+kit.Nobody).As("of nobody").Refused(404, "not_found")
		hooktest.TryNew(a, h.To.URL, obj{"agent_id": b.ID}).Refused(403, "not_owner")
		hooktest.TryNew(a, h.To.URL, obj{"agent_id": kit.Nobody}).Refused(404, "not_found")
		if list := a.Get("/webhooks?include_inactive=true").Want(200).List; len(list) != 0 {
			t.Errorf("another organization lists %v", list)
		}
		for _, row := range kit.Objects(a.Get("/messages/" + kit.Text(j, "message_id") + "/trace").Want(200).Body["attempts"].([]any)) {
			if row["channel"] == "webhook" {
				t.Errorf("the sender's trace shows %v", row)
			}
		}
		if !h.Read()["active"].(bool) {
			t.Error("a request of another organization had an effect")
		}
	})
}

func TestWebhookBodies(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("g")
		good := hooktest.SharedSink(t).Target().URL
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
		h := hooktest.New(g, hooktest.SharedSink(t).Target(), obj{"more": "is ignored", "description": nil, "events": nil})
		for _, body := range []obj{{}, {"active": nil}, {"active": "true"}, {"active": 1}} {
			g.Patch(h.Path(""), body).As("%v", body).Invalid("body.active", "")
		}
		g.Patch("/webhooks/nothing", obj{"active": true}).Invalid("path", "uuid_parsing")
		g.Get(h.Path("/deliveries?status=")).Invalid("query.status", "")
		g.Post(h.Path("/deliveries/"+kit.Nobody+"/retry"), nil).Refused(404, "not_found")
		for _, text := range []string{"http://user:secret@", "https://user:secret@"} {
			hooktest.TryNew(g, text+"hooks.example.org/").As("%s", text).Invalid("body.url", "value_error")
		}
	})
}

func TestDuplicateWebhooks(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		to := hooktest.SharedSink(t).Target()
		h := hooktest.New(a, to)
		hooktest.TryNew(a, to.URL).Refused(409, "duplicate_webhook")
		hooktest.TryNew(a, strings.Replace(to.URL, "https://", "HTTPS://", 1)).As("spelled otherwise").Refused(409, "duplicate_webhook")
		hooktest.TryNew(a, to.URL, obj{"events": []string{"message.read"}}).As("for other events").Refused(409, "duplicate_webhook")
		hooktest.New(b, to)
		hooktest.TryNew(a, to.URL+"?another").Want(201)
		h.SetActive(false)
		hooktest.TryNew(a, to.URL).As("inactive").Refused(409, "duplicate_webhook")
		a.Delete(h.Path("")).Want(204)
		again := hooktest.New(a, to)
		if again.Secret == h.Secret || again.ID == h.ID {
			t.Error("a recreated webhook has the id or the secret of the old one")
		}
		raced := hooktest.SharedSink(t).Target().URL
		made := 0
		for _, answered := range kit.Concurrently(8, func(int) *kit.Answer { return hooktest.TryNew(a, raced) }) {
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
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--webhook-ca", hooktest.SharedSink(t).CAFile, "--quota-profile", "public")
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		o.Get("/org/quotas").Want(200).Is("quotas.webhooks_per_agent.limit", 3)
		var made []string
		for _, answered := range kit.Concurrently(12, func(int) *kit.Answer { return hooktest.TryNew(a, hooktest.SharedSink(t).Target().URL) }) {
			if answered.Status == 201 {
				made = append(made, answered.Str("id"))
			} else {
				answered.Refused(403, "quota_exceeded").Is("quota", "webhooks_per_agent", "limit", 3, "used", 3)
			}
		}
		if len(made) != 3 {
			t.Fatalf("%d webhooks, want 3", len(made))
		}
		hooktest.Listening(b)
		a.Patch("/webhooks/"+made[0], obj{"active": false}).Want(200)
		hooktest.TryNew(a, hooktest.SharedSink(t).Target().URL).As("one is off").Refused(403, "quota_exceeded")
		a.Delete("/webhooks/" + made[0]).Want(204)
		hooktest.Listening(a)
		hooktest.TryNew(a, hooktest.SharedSink(t).Target().URL).As("full again").Refused(403, "quota_exceeded")
	})
}

func TestRevokedAgentsHaveNoWebhooks(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		h, broken := hooktest.Listening(b), hooktest.Listening(b, hooktest.Says(500))
		m := a.Send(b)
		h.WaitForStatus(m, "delivered")
		failed := broken.WaitForStatus(m, "failed")
		b.Delete(b.Path("")).Want(204)
		kit.Eventually(t, "the webhooks are inactive", func() bool { return h.Read()["active"] == false && broken.Read()["active"] == false })
		if row := h.Read(); row["disabled_at"] == nil || row["disabled_reason"] == nil {
			t.Errorf("the webhook does not state why it is inactive: %v", row)
		}
		hooktest.TryNew(b, hooktest.SharedSink(t).Target().URL).Refused(410, "gone")
		b.Patch(h.Path(""), obj{"active": true}).As("switched on").Refused(410, "gone")
		b.Post(h.Path("/test"), nil).As("test").Refused(410, "gone")
		broken.Retry(failed).As("retry").Refused(410, "gone")
		h.WaitForCounts(1, 0, 0, 0)
		b.Delete(h.Path("")).Want(204)
		broken.To.CheckNoMore(t, 1)
	})
}

// TestManyWebhooksOfManyAgents distributes agents over all journals.
func TestManyWebhooksOfManyAgents(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		from := s.Org(t).Agent("from")
		o := s.Org(t)
		recipients := o.NewAgents(24, "h")
		hs := kit.ConcurrentlyBounded(len(recipients), func(i int) *hooktest.Hook { return hooktest.Listening(recipients[i]) })
		kit.ForEachBounded(len(recipients)*5, func(i int) { from.TrySend(recipients[i%len(recipients)], nil).Want(201) })
		for i, h := range hs {
			h.WaitForCounts(5, 0, 0, 0)
			seen := map[any]bool{}
			for _, d := range h.To.Deliveries() {
				seen[d.Judged(t, h).Body["message_id"]] = true
			}
			if len(seen) != 5 {
				t.Errorf("agent %d was notified about %d messages, want 5", i, len(seen))
			}
		}
	})
}
