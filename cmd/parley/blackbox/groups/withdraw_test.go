package groups

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// end withdraws or declines a request as an agent.
func end(r *grouptest.Group, by *kit.Agent, request string) *kit.Answer {
	return by.Request("DELETE", r.Path("/requests/"+request), nil)
}

// endFor withdraws or declines a request for an organization that names no agent.
func endFor(r *grouptest.Group, o *kit.Org, request string) *kit.Answer {
	return o.Delete(r.Path("/requests/" + request))
}

// TestWithdrawing: who ends which request, how it ends, and what others hear.
func TestWithdrawing(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		o, guests := s.Org(t), s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		x, y := guests.Agent("x"), guests.Agent("y")
		stranger := s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(a, "majority", b)
		check := func(what, id, status string, again func() *kit.Answer) {
			t.Helper()
			checkRequest(r, what, a, id, "status", status, "reason", nil)
			before := r.Request(a, id)
			again().As("%s, again", what).Want(204)
			if after := r.Request(a, id); !kit.Same(before, after) {
				t.Errorf("%s: the repeat changed %v to %v", what, before, after)
			}
		}

		ended := func(what string, by *kit.Agent, id, status string) {
			t.Helper()
			end(r, by, id).As("%s", what).Want(204)
			check(what, id, status, func() *kit.Answer { return end(r, by, id) })
		}
		endedFor := func(what string, by *kit.Org, id, status string) {
			t.Helper()
			endFor(r, by, id).As("%s", what).Want(204)
			check(what, id, status, func() *kit.Answer { return endFor(r, by, id) })
		}

		application := kit.Text(r.Applied(x), "id")
		end(r, a, application).As("an admin").Refused(403, "not_owner")
		end(r, stranger, application).As("a stranger").Refused(404, "not_found")
		end(r, y, application).As("another agent of the applicant's organization").Refused(404, "not_found")
		ended("an application", x, application, "canceled")
		endFor(r, guests, application).As("its organization").Want(204)
		for range 4 {
			endedFor("an application, by its organization", guests, kit.Text(r.Applied(x), "id"), "canceled")
		}
		r.Join(x).Refused(403, "quota_exceeded").Is("quota", "join_requests", "limit", 5, "used", 5)

		nomination := r.Invited(b, y, "pending")
		end(r, a, nomination).As("an admin").Refused(403, "not_owner")
		ended("a nomination", b, nomination, "canceled")
		nomination = r.Invited(b, y, "pending")
		if status := voted(r, a, nomination, "approve"); status != "invited" {
			t.Fatalf("the nomination is %s", status)
		}
		end(r, b, nomination).As("a nomination that the members have approved").Refused(409, "request_closed")
		ended("a nomination that the members have approved", y, nomination, "declined")
		end(r, b, nomination).As("a declined nomination").Refused(409, "request_closed")

		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		ended("an invitation, by its inviter", a, r.Invited(a, x, "invited"), "canceled")
		endedFor("an invitation, by the inviter's organization", o, r.Invited(a, x, "invited"), "canceled")
		ended("an invitation, by its invitee", x, r.Invited(a, x, "invited"), "declined")
		r.Role(a, b, "admin").Want(200)
		invitation := r.Invited(b, x, "invited")
		r.Role(a, b, "member").Want(200)
		st := b.Stream("")
		st.Opening()
		endFor(r, guests, invitation).Want(204)
		groupEvents(st, "the inviter", r, "request.resolved "+invitation)
		invitation = r.Invited(a, x, "invited")
		r.Join(x).Want(200)
		end(r, x, invitation).As("an accepted invitation").Refused(409, "request_closed")
		kit.VerifyDirectory(t, s)
	})
}

// TestWithdrawalsAndVotesAtOnce: of a withdrawal and the last vote exactly one wins.
func TestWithdrawalsAndVotesAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a := s.Org(t).Agent("a")
		r := grouptest.NewWithPolicy(a, "majority")
		applicants := s.Org(t).NewAgents(20, "x")
		kit.Concurrently(len(applicants), func(k int) bool {
			x := applicants[k]
			id := kit.Text(r.Applied(x), "id")
			answers := kit.Concurrently(2, func(i int) *kit.Answer {
				if i == k%2 {
					return r.Vote(a, id, "approve")
				}
				return end(r, x, id)
			})
			vote, withdrawal := answers[k%2], answers[1-k%2]
			withdrawn := withdrawal.Status == 204
			if withdrawn && vote.Status == 200 { // it came first, and the seat was not taken yet
				vote.Is("status", "pending")
			} else if withdrawn {
				vote.Refused(409, "request_closed")
			} else {
				withdrawal.Refused(409, "request_closed")
				vote.Want(200).Is("status", "approved")
			}
			want := map[bool]string{true: "canceled", false: "approved"}[withdrawn]
			checkRequest(r, "after a race", a, id, "status", want)
			if hasMember(r, x) == withdrawn {
				t.Errorf("%s withdrew: %v, and is a member: %v", x.Name, withdrawn, !withdrawn)
			}
			return withdrawn
		})
	})
}
