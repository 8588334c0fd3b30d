package groups

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// frozenGroup returns a group of a founder that is revoked, with members of another
// organization.
func frozenGroup(t *testing.T, o *kit.Org, policy string, members ...*kit.Agent) *grouptest.Group {
	t.Helper()
	founder := o.Agent("founder" + kit.RandomHex(3))
	r := grouptest.NewWithPolicy(founder, policy, members...)
	r.Patch(obj{"visibility": "public"}).Want(200)
	o.Delete(founder.Path("")).Want(204)
	kit.Eventually(t, "the group is frozen", func() bool { return r.Read(members[0]).At("frozen") == true })
	return r
}

// TestFrozenGroup: the last admin is revoked, and no agent of the owner is a member. Members
// talk and leave; nothing else is done until the owner names an admin.
func TestFrozenGroup(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		o, guests := s.Org(t), s.Org(t)
		spare := o.Agent("spare")
		x, y, z := guests.Agent("x"), guests.Agent("y"), guests.Agent("z")
		applicant, stranger := s.Org(t).Agent("applicant"), s.Org(t).Agent("stranger")
		founder := o.Agent("founder")
		r := grouptest.NewWithPolicy(founder, "majority", x, y, z)
		r.Patch(obj{"visibility": "public"}).Want(200)
		r.Read(x).Is("frozen", false)
		request := kit.Text(r.Applied(applicant), "id")
		r.Vote(x, request, "approve").Want(200)
		r.Vote(y, request, "approve").Want(200)
		o.Delete(founder.Path("")).Want(204)
		kit.Eventually(t, "the group is frozen", func() bool { return r.Read(x).At("frozen") == true })

		checkRequest(r, "frozen", x, request, "status", "pending", "approvals", 2, "approvals_needed", 2, "you_may_vote", false, "you_may_vote_reason", "request_closed")
		r.Join(stranger).Refused(409, "frozen")
		r.Join(applicant).As("an applicant").Refused(409, "frozen")
		r.Invite(x, stranger).Refused(409, "frozen")
		r.Vote(z, request, "approve").Refused(409, "frozen")
		r.Vote(stranger, request, "approve").As("a stranger").Refused(403, "not_in_electorate")
		x.Request("PATCH", r.Path(""), obj{"description": "ours"}).Refused(409, "frozen")
		o.Patch(r.Path(""), obj{"description": "ours"}).As("the owner").Refused(409, "frozen")
		stranger.Request("PATCH", r.Path(""), obj{"description": "ours"}).As("a stranger").Refused(403, "not_admin")
		r.Role(x, x, "admin").Refused(409, "frozen")
		r.Remove(x, y).Refused(409, "frozen")
		x.Request("DELETE", r.Path(""), nil).As("a member of another organization").Refused(403, "not_admin")
		if profile := stranger.Request("GET", "/directory/groups/"+r.ID, nil).Want(200); profile.At("frozen") != nil {
			t.Errorf("the public profile says %v", profile.Body)
		}
		r.Broadcast(x)
		r.Remove(z, z).Want(204)
		checkRequest(r, "after a departure", x, request, "status", "pending", "approvals", 2, "approvals_needed", 2)

		appoint := func(by *kit.Agent, whom string) *kit.Answer {
			return by.Request("POST", r.Path("/admins"), obj{"agent_id": whom})
		}
		appoint(x, x.ID).As("by a member").Refused(403, "not_owner")
		appoint(stranger, stranger.ID).As("by a stranger").Refused(403, "not_owner")
		appoint(spare, stranger.ID).As("another organization's agent").Refused(404, "not_found")
		appoint(spare, kit.Nobody).As("nobody").Refused(404, "not_found")
		appoint(spare, founder.ID).As("a revoked agent").Refused(410, "gone")
		spare.Request("POST", r.Path("/admins"), obj{}).Invalid("body.agent_id", "missing")
		appoint(spare, y.ID).As("a member").Want(200).Shaped(grouptest.MemberShape).Is("agent_id", y.ID, "role", "admin", "is_own_org", false)
		r.Read(x).Is("frozen", false)
		appoint(spare, spare.ID).As("one of its own").Want(200).Is("agent_id", spare.ID, "role", "admin", "is_own_org", true)
		appoint(spare, x.ID).As("with an admin of its own").Refused(409, "invalid_transition")
		r.CheckMembers("after all", x, y, spare)
		if status := r.Join(applicant).As("the applicant joins again").Want(200).At("status"); status != "joined" {
			t.Errorf("the applicant is %v", status)
		}
		kit.VerifyDirectory(t, s)
	})
}

// TestFrozenGroupEnds: any agent of the owner deletes a frozen group, and it ends with its
// last member.
func TestFrozenGroupEnds(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		spare, guest := o.Agent("spare"), guests.Agent("guest")
		r := frozenGroup(t, o, "open", guest)
		spare.Request("DELETE", r.Path(""), nil).As("by the owner").Want(204)
		guest.Request("GET", r.Path(""), nil).Refused(410, "gone")
		r = frozenGroup(t, o, "open", guest)
		r.Remove(guest, guest).As("the last member leaves").Want(204)
		spare.Request("GET", r.Path(""), nil).Refused(410, "gone")
		r = frozenGroup(t, o, "closed", guest)
		isolated := grouptest.New(o.Agent("loner"), obj{"isolated": true})
		spare.Request("POST", r.Path("/admins"), obj{"agent_id": isolated.By.ID}).Refused(409, "isolation_conflict")
	})
}
