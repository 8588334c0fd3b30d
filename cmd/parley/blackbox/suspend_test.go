package blackbox

import (
	"testing"
	"time"
)

// TestSuspension: a suspended organization can only read; its streams end and its
// webhooks pause, also after a restart. Messages sent to it are kept, and everything
// resumes after the suspension.
func TestSuspension(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin, "--webhook-ca", theSink(t).caFile)
		operator := func(args ...string) obj {
			t.Helper()
			return succeeds(t, append(append([]string{"org"}, args...), "--admin", "http://"+admin, "--data", s.dir)...)
		}
		a, b := pair(t, s)
		control := s.org(t).agent("control")
		hook, failing, beside := b.listens(), b.listens(says(500), says(200)), control.listens()
		first := a.send(b)
		hook.waitForStatus(first, "delivered")
		failing.waitForStatus(first, "failed")
		live := b.stream("")
		live.opening()

		if got := operator("suspend", b.slug); got["suspended_at"] == nil || text(got, "id") != b.org.id {
			t.Errorf("suspended: %v", got)
		}
		live.ends(5 * time.Second)
		since := operator("suspend", b.org.id)["suspended_at"]
		barred := func() {
			t.Helper()
			for _, call := range [][2]string{
				{"POST", "/messages"},
				{"POST", "/messages/sync"},
				{"POST", "/agents"},
				{"PATCH", "/org"},
				{"PATCH", b.path("")},
				{"DELETE", b.path("")},
				{"POST", "/groups"},
				{"POST", "/webhooks"},
				{"POST", hook.path("/test")},
				{"PATCH", hook.path("")},
				{"DELETE", hook.path("")},
				{"POST", "/org/credentials"},
				{"POST", b.path("/poll-token")},
				{"PUT", b.path("/card")},
				{"DELETE", b.path("/card")},
				{"POST", "/messages/" + text(first, "id") + "/read"},
			} {
				s.call(t, b.token, call[0], call[1], obj{}).as("%v", call).refused(403, "suspended")
			}
			if st, refused := b.listen(""); st != nil || refused.status != 403 {
				t.Errorf("a stream opened: %v", refused)
			}
			for _, path := range []string{"/org", "/org/quotas", "/agents", b.path("/messages"), "/messages/" + text(first, "id"), hook.path("/deliveries"), b.path("/wait?timeout_ms=1000")} {
				b.get(path).want(200)
			}
			s.grant(t, b.client, b.secret).want(200)
		}
		barred()

		// Other organizations are unaffected and may send to it.
		second := a.send(b)
		b.get("/messages/" + text(second, "id")).want(200)
		beside.waitForStatus(a.send(control), "delivered")
		s.kill()
		s.restart(t)
		barred()
		third := a.send(b)
		beside.waitForStatus(a.send(control), "delivered")
		if n, m := len(hook.to.deliveries()), len(failing.to.deliveries()); n != 1 || m != 1 {
			t.Errorf("%d and %d deliveries arrived, want the first of each", n, m)
		}

		if got := operator("resume", b.slug); got["suspended_at"] != nil {
			t.Errorf("resumed: %v", got)
		}
		for _, m := range []obj{second, third} {
			hook.waitForStatus(m, "delivered")
			failing.waitForStatus(m, "delivered")
		}
		failing.waitForStatus(first, "delivered")
		b.stream("00000000-0000-0000-0000-000000000000").messages(text(first, "id"), text(second, "id"), text(third, "id"))
		b.reply(first)
		if since == nil || operator("show", b.slug)["suspended_at"] != nil {
			t.Errorf("suspended since %v", since)
		}
	})
}

// TestReadsOutliveASuspension: a wait is a read, which a suspended organization may make,
// and a sync accepted before the suspension gets its reply.
func TestReadsOutliveASuspension(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		a, b := pair(t, s)
		asked := b.ask(a, "?timeout_ms=20000", nil)
		question := a.arrival(1)
		waited := make(chan *answer, 1)
		go func() { waited <- b.get(b.path("/wait?timeout_ms=20000")) }()
		succeeds(t, "org", "suspend", b.slug, "--admin", "http://"+admin, "--data", s.dir)
		b.post("/messages", message(a, nil)).refused(403, "suspended")
		a.reply(question)
		judged(<-asked, "replied")
		a.send(b)
		if got := (<-waited).want(200); len(got.body["items"].([]any)) == 0 {
			got.errorf("the wait gives nothing")
		}
		b.get(b.path("/wait?timeout_ms=1000")).want(200)
	})
}

// TestOrgList: the listing shows every organization exactly once.
func TestOrgList(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		door := &server{base: "http://" + admin, addr: admin}
		token, want := s.adminToken(t), map[string]obj{}
		if out, said, code := command(t, "org", "list", "--json", "--admin", door.base, "--data", s.dir); code != 0 || out != `{"items":[]}`+"\n" {
			t.Errorf("without organizations: exit code %d, %s%s", code, out, said)
		}
		for range 7 {
			o := s.org(t)
			want[o.slug] = obj{"id": o.id, "slug": o.slug, "trust_tier": 1.0, "agent_count": 0.0}
		}
		seen := map[string]bool{}
		cursor := ""
		for pages := 1; ; pages++ {
			a := door.call(t, token, "GET", "/orgs?limit=3&cursor="+cursor, nil)
			if a.err != nil || a.status != 200 || len(a.items()) > 3 {
				a.fatalf("a page")
			}
			for _, row := range a.items() {
				if w := want[text(row, "slug")]; w == nil || seen[text(row, "slug")] || row["id"] != w["id"] || row["agent_count"] != 0.0 || row["suspended_at"] != nil {
					t.Errorf("row %v, want %v", row, w)
				}
				seen[text(row, "slug")] = true
			}
			if cursor, _ = a.at("next_cursor").(string); cursor == "" || pages == 3 {
				if cursor != "" || pages != 3 {
					t.Errorf("after %d pages the cursor is %q", pages, cursor)
				}
				break
			}
		}
		if len(seen) != len(want) {
			t.Errorf("%d organizations, want %d", len(seen), len(want))
		}
		for _, limit := range []string{"0", "501", "x"} {
			if a := door.call(t, token, "GET", "/orgs?limit="+limit, nil); a.err != nil || a.status != 422 {
				a.errorf("limit=%s", limit)
			}
		}
		rows, _ := succeeds(t, "org", "list", "--admin", door.base, "--data", s.dir)["items"].([]any)
		if len(rows) != len(want) {
			t.Errorf("the command listed %d", len(rows))
		}
		for i, row := range objects(rows) {
			if i > 0 && text(objects(rows)[i-1], "slug") >= text(row, "slug") {
				t.Error("not sorted by slug")
			}
		}
	})
}
