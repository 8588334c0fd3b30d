package orgs

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestApproval: under --tier1 approval an organization waits for the operator's approval.
// Approval takes effect at the next request, with the access token that the organization
// already has.
func TestApproval(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--tier1", "approval", "--admin-listen", admin)
		operator := func(args ...string) obj {
			return kit.Succeeds(t, append(append([]string{"org"}, args...), "--admin", "http://"+admin, "--data", s.Dir)...)
		}
		a, b := registers(t, s, "ops@a.example", "A"), registers(t, s, "ops@b.example", "B")
		cleared(a, false)
		s.Call(t, "", "POST", "/auth/verify-email", obj{"token": "x"}).As("nothing is mailed").Refused(404, "not_found")
		if got := operator("approve", a.Slug); got["trust_tier"] != 1.0 || kit.Text(got, "id") != a.ID || got["tier_granted_at"] == nil {
			t.Errorf("approved: %v", got)
		}
		cleared(a, true)
		alice := a.Agent("alice")
		cleared(b, false)
		if got := operator("approve", b.ID); got["trust_tier"] != 1.0 {
			t.Errorf("approved by its id: %v", got)
		}
		alice.Send(b.Agent("bob"))

		// Approval never lowers a tier and never raises one above 1.
		for tier, want := range map[string]float64{"0": 1, "1": 1, "2": 2, "3": 3} {
			operator("tier", a.Slug, tier)
			for range 2 {
				if got := operator("approve", a.Slug); got["trust_tier"] != want {
					t.Errorf("approved at tier %s: %v, want %v", tier, got["trust_tier"], want)
				}
			}
			a.Get("/org").Want(200).Is("trust_tier", want)
			a.Get("/org/quotas").Want(200).Is("tier", want)
		}
		for what, code := range map[string]int{"nobody": 5, kit.Nobody: 5} {
			if _, said, got := kit.Command(t, "org", "approve", what, "--admin", "http://"+admin, "--data", s.Dir); got != code {
				t.Errorf("approving %s: exit code %d, want %d\n%s", what, got, code, said)
			}
		}
		operator("tier", a.Slug, "0")
		cleared(a, false)
		operator("approve", a.Slug)
		s.Kill()
		s.Restart(t)
		cleared(a, true)
		cleared(b, true)
	})
}
