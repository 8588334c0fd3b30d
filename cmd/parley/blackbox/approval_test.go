package blackbox

import "testing"

// TestApproval: under --tier1 approval an organization waits for the operator's approval.
// Approval takes effect at the next request, with the access token that the organization
// already has.
func TestApproval(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--tier1", "approval", "--admin-listen", admin)
		operator := func(args ...string) obj {
			return succeeds(t, append(append([]string{"org"}, args...), "--admin", "http://"+admin, "--data", s.dir)...)
		}
		a, b := s.registers(t, "ops@a.example", "A"), s.registers(t, "ops@b.example", "B")
		a.cleared(false)
		s.call(t, "", "POST", "/auth/verify-email", obj{"token": "x"}).as("nothing is mailed").refused(404, "not_found")
		if got := operator("approve", a.slug); got["trust_tier"] != 1.0 || text(got, "id") != a.id || got["tier_granted_at"] == nil {
			t.Errorf("approved: %v", got)
		}
		a.cleared(true)
		alice := a.agent("alice")
		b.cleared(false)
		if got := operator("approve", b.id); got["trust_tier"] != 1.0 {
			t.Errorf("approved by its id: %v", got)
		}
		alice.send(b.agent("bob"))

		// Approval never lowers a tier and never raises one above 1.
		for tier, want := range map[string]float64{"0": 1, "1": 1, "2": 2, "3": 3} {
			operator("tier", a.slug, tier)
			for range 2 {
				if got := operator("approve", a.slug); got["trust_tier"] != want {
					t.Errorf("approved at tier %s: %v, want %v", tier, got["trust_tier"], want)
				}
			}
			a.get("/org").want(200).is("trust_tier", want)
			a.get("/org/quotas").want(200).is("tier", want)
		}
		for what, code := range map[string]int{"nobody": 5, nobody: 5} {
			if _, said, got := command(t, "org", "approve", what, "--admin", "http://"+admin, "--data", s.dir); got != code {
				t.Errorf("approving %s: exit code %d, want %d\n%s", what, got, code, said)
			}
		}
		operator("tier", a.slug, "0")
		a.cleared(false)
		operator("approve", a.slug)
		s.kill()
		s.restart(t)
		a.cleared(true)
		b.cleared(true)
	})
}
