package orgs

import (
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestSuspension: a suspended organization can only read; its streams end and its
// webhooks pause, also after a restart. Messages sent to it are kept, and everything
// resumes after the suspension.
func TestSuspension(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin, "--webhook-ca", hooktest.SharedSink(t).CAFile)
		operator := func(args ...string) obj {
			t.Helper()
			return kit.Succeeds(t, append(append([]string{"org"}, args...), "--admin", "http://"+admin, "--data", s.Dir)...)
		}
		a, b := kit.Pair(t, s)
		control := s.Org(t).Agent("control")
		hook, failing, beside := hooktest.Listening(b), hooktest.Listening(b, hooktest.Says(500), hooktest.Says(200)), hooktest.Listening(control)
		first := a.Send(b)
		hook.WaitForStatus(first, "delivered")
		failing.WaitForStatus(first, "failed")
		live := b.Stream("")
		live.Opening()

		if got := operator("suspend", b.Slug); got["suspended_at"] == nil || kit.Text(got, "id") != b.Org.ID {
			t.Errorf("suspended: %v", got)
		}
		live.Ends(5 * time.Second)
		since := operator("suspend", b.Org.ID)["suspended_at"]
		barred := func() {
			t.Helper()
			for _, call := range [][2]string{
				{"POST", "/messages"},
				{"POST", "/messages/sync"},
				{"POST", "/agents"},
				{"PATCH", "/org"},
				{"PATCH", b.Path("")},
				{"DELETE", b.Path("")},
				{"POST", "/groups"},
				{"POST", "/webhooks"},
				{"POST", hook.Path("/test")},
				{"PATCH", hook.Path("")},
				{"DELETE", hook.Path("")},
				{"POST", "/org/credentials"},
				{"POST", b.Path("/poll-token")},
				{"PUT", b.Path("/card")},
				{"DELETE", b.Path("/card")},
				{"POST", "/messages/" + kit.Text(first, "id") + "/read"},
			} {
				s.Call(t, b.Token, call[0], call[1], obj{}).As("%v", call).Refused(403, "suspended")
			}
			if st, refused := b.Listen(""); st != nil || refused.Status != 403 {
				t.Errorf("a stream opened: %v", refused)
			}
			for _, path := range []string{"/org", "/org/quotas", "/agents", b.Path("/messages"), "/messages/" + kit.Text(first, "id"), hook.Path("/deliveries"), b.Path("/wait?timeout_ms=1000")} {
				b.Get(path).Want(200)
			}
			s.Grant(t, b.Client, b.Secret).Want(200)
		}
		barred()

		// Other organizations are unaffected and may send to it.
		second := a.Send(b)
		b.Get("/messages/" + kit.Text(second, "id")).Want(200)
		beside.WaitForStatus(a.Send(control), "delivered")
		s.Kill()
		s.Restart(t)
		barred()
		third := a.Send(b)
		beside.WaitForStatus(a.Send(control), "delivered")
		if n, m := len(hook.To.Deliveries()), len(failing.To.Deliveries()); n != 1 || m != 1 {
			t.Errorf("%d and %d deliveries arrived, want the first of each", n, m)
		}

		if got := operator("resume", b.Slug); got["suspended_at"] != nil {
			t.Errorf("resumed: %v", got)
		}
		for _, m := range []obj{second, third} {
			hook.WaitForStatus(m, "delivered")
			failing.WaitForStatus(m, "delivered")
		}
		failing.WaitForStatus(first, "delivered")
		b.Stream("00000000-0000-0000-0000-000000000000").Messages(kit.Text(first, "id"), kit.Text(second, "id"), kit.Text(third, "id"))
		b.Reply(first)
		if since == nil || operator("show", b.Slug)["suspended_at"] != nil {
			t.Errorf("suspended since %v", since)
		}
	})
}

// TestHold: what the operator holds cannot be erased, suspended or not.
func TestHold(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		operator := func(args ...string) obj {
			t.Helper()
			return kit.Succeeds(t, append(append([]string{"org"}, args...), "--admin", "http://"+admin, "--data", s.Dir)...)
		}
		a, b := kit.Pair(t, s)
		operator("suspend", b.Slug)
		held := operator("hold", b.Slug)["held_at"]
		if again := operator("hold", b.Slug)["held_at"]; held == nil || again != held {
			t.Errorf("held since %v, then %v", held, again)
		}
		a.Send(b)
		b.Delete("/orgs/"+b.Org.ID).Refused(409, "legal_hold")
		b.Get("/org").Want(200)
		if got := operator("release", b.Slug); got["held_at"] != nil {
			t.Errorf("released: %v", got)
		}
		b.Delete("/orgs/" + b.Org.ID).Want(200)
	})
}

// TestReadsOutliveASuspension: a wait is a read, which a suspended organization may make,
// and a sync accepted before the suspension gets its reply.
func TestReadsOutliveASuspension(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		a, b := kit.Pair(t, s)
		asked := b.Ask(a, "?timeout_ms=20000", nil)
		question := a.Arrival(1)
		waited := make(chan *kit.Answer, 1)
		go func() { waited <- b.Get(b.Path("/wait?timeout_ms=20000")) }()
		kit.Succeeds(t, "org", "suspend", b.Slug, "--admin", "http://"+admin, "--data", s.Dir)
		b.Post("/messages", kit.Message(a, nil)).Refused(403, "suspended")
		a.Reply(question)
		kit.Judged(<-asked, "replied")
		a.Send(b)
		if got := (<-waited).Want(200); len(got.Body["items"].([]any)) == 0 {
			got.Errorf("the wait gives nothing")
		}
		b.Get(b.Path("/wait?timeout_ms=1000")).Want(200)
	})
}

// TestOrgList: the listing shows every organization exactly once.
func TestOrgList(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		door := &kit.Server{Base: "http://" + admin, Addr: admin}
		token, want := s.AdminToken(t), map[string]obj{}
		if out, said, code := kit.Command(t, "org", "list", "--json", "--admin", door.Base, "--data", s.Dir); code != 0 || out != `{"items":[]}`+"\n" {
			t.Errorf("without organizations: exit code %d, %s%s", code, out, said)
		}
		for range 7 {
			o := s.Org(t)
			want[o.Slug] = obj{"id": o.ID, "slug": o.Slug, "trust_tier": 1.0, "agent_count": 0.0}
		}
		seen := map[string]bool{}
		cursor := ""
		for pages := 1; ; pages++ {
			a := door.Call(t, token, "GET", "/orgs?limit=3&cursor="+cursor, nil)
			if a.Err != nil || a.Status != 200 || len(a.Items()) > 3 {
				a.Fatalf("a page")
			}
			for _, row := range a.Items() {
				if w := want[kit.Text(row, "slug")]; w == nil || seen[kit.Text(row, "slug")] || row["id"] != w["id"] || row["agent_count"] != 0.0 || row["suspended_at"] != nil {
					t.Errorf("row %v, want %v", row, w)
				}
				seen[kit.Text(row, "slug")] = true
			}
			if cursor, _ = a.At("next_cursor").(string); cursor == "" || pages == 3 {
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
			if a := door.Call(t, token, "GET", "/orgs?limit="+limit, nil); a.Err != nil || a.Status != 422 {
				a.Errorf("limit=%s", limit)
			}
		}
		rows, _ := kit.Succeeds(t, "org", "list", "--admin", door.Base, "--data", s.Dir)["items"].([]any)
		if len(rows) != len(want) {
			t.Errorf("the command listed %d", len(rows))
		}
		for i, row := range kit.Objects(rows) {
			if i > 0 && kit.Text(kit.Objects(rows)[i-1], "slug") >= kit.Text(row, "slug") {
				t.Error("not sorted by slug")
			}
		}
	})
}
