package orgs

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// reported returns the reports of an organization that the operator sees, by their ids.
func reported(t *testing.T, s *kit.Server, by string, flags ...string) map[string]obj {
	t.Helper()
	out, err := s.Operate(append([]string{"report", "list", "--json"}, flags...)...)
	var page struct{ Items []obj }
	if err != nil || json.Unmarshal([]byte(out), &page) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := map[string]obj{}
	for _, r := range page.Items {
		if r["reported_by"] == by {
			kit.Exactly(t, "a report", r, "report_id category note message_id agent_id group_id org_id reported_by created_at closed_at")
			all[kit.Text(r, "report_id")] = r
		}
	}
	return all
}

// TestReports: the operator sees what organizations report, until it closes that, or the one that
// reported is erased. The same subject is one report while it is open.
func TestReports(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--admin-listen", kit.FreeAddress(t))
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		sent := a.Send(b)
		private := grouptest.New(a, obj{"visibility": "private"})
		public := grouptest.New(a, obj{"enrollment_policy": "open", "visibility": "public"})
		report := func(by *kit.Agent, member string, id any) *kit.Answer {
			return by.Post("/reports", obj{"category": "spam", member: id, "note": "Offers."})
		}
		filed := report(b, "message_id", sent["id"]).Want(201)
		kit.Exactly(t, "the answer", filed.Body, "report_id")
		id := filed.Str("report_id")
		if again := b.Post("/reports", obj{"category": "abuse", "message_id": sent["id"]}).Want(200).Str("report_id"); again != id {
			t.Errorf("the same report is %s, then %s", id, again)
		}
		report(b, "agent_id", a.ID).Want(201)
		report(b, "group_id", public.ID).Want(201)
		if other := report(a, "agent_id", b.ID).Want(201).Str("report_id"); reported(t, s, b.Org.ID)[other] != nil {
			t.Error("a report of another organization is this one's")
		}
		report(a, "message_id", sent["id"]).Refused(404, "not_found")
		report(stranger, "message_id", sent["id"]).Refused(404, "not_found")
		report(b, "group_id", private.ID).Refused(404, "not_found")
		report(a, "group_id", private.ID).Want(201)
		report(b, "agent_id", "0190a5d0-0000-7000-8000-000000000000").Refused(404, "not_found")
		for _, bad := range []obj{
			{"category": "spam"},
			{"category": "lies", "agent_id": a.ID},
			{"agent_id": a.ID},
			{"category": "spam", "agent_id": a.ID, "group_id": public.ID},
			{"category": "spam", "agent_id": a.ID, "note": strings.Repeat("n", 2001)},
		} {
			b.Post("/reports", bad).Want(422)
		}

		seen := reported(t, s, b.Org.ID)
		r := seen[id]
		if len(seen) != 3 || r["message_id"] != sent["id"] || r["agent_id"] != nil || r["org_id"] != a.Org.ID || r["category"] != "spam" || r["note"] != "Offers." || r["closed_at"] != nil {
			t.Errorf("the operator sees %v", seen)
		}
		for range 2 {
			if out, err := s.Operate("report", "close", id); err != nil {
				t.Fatal(err, out)
			}
		}
		if seen, closed := reported(t, s, b.Org.ID), reported(t, s, b.Org.ID, "--closed"); len(seen) != 2 || len(closed) != 1 || closed[id]["closed_at"] == nil {
			t.Errorf("open are %v, closed %v", seen, closed)
		}
		if another := report(b, "message_id", sent["id"]).Want(201).Str("report_id"); another == id {
			t.Error("a closed report was not made anew")
		}
		b.Get("/org/quotas").Want(200).Is("quotas.reports_per_day.used", 4, "quotas.reports_per_day.limit", 20)
		for range 16 {
			report(b, "agent_id", s.Org(t).Agent("other").ID).Want(201)
		}
		report(b, "agent_id", stranger.ID).Refused(403, "quota_exceeded").Is("quota", "reports_per_day", "used", 20, "limit", 20)
		report(b, "agent_id", a.ID).Want(200)

		b.Delete("/orgs/" + b.Org.ID).Want(200)
		if open, closed := reported(t, s, b.Org.ID), reported(t, s, b.Org.ID, "--closed"); len(open)+len(closed) != 0 {
			t.Errorf("after its erasure there are %v and %v", open, closed)
		}
		if len(reported(t, s, a.Org.ID)) != 2 {
			t.Error("reports of another organization are gone")
		}
	})
}

// TestTurns: in a conversation of two each message has its number, and in that of a group none.
func TestTurns(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		turn := func(m obj) any { return m["metadata"].(obj)["provenance"].(obj)["turn"] }
		for n := range 4 {
			if got := turn(m); got != float64(n+1) {
				t.Errorf("message %d has turn %v", n+1, got)
			}
			m = b.Reply(m)
			a, b = b, a
		}
		g := grouptest.NewWithPolicy(a, "open", b)
		if got := turn(g.Broadcast(a)); got != nil {
			t.Errorf("a broadcast has turn %v", got)
		}
	})
}
