package groups

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestIsolation: a member of any group cannot join an isolated group, and a member of an
// isolated group cannot join any other. In each row an agent in a group of one kind tries
// to enter a group of the other kind by one of the ways in.
func TestIsolation(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, guests := s.Org(t), s.Org(t)
		// enter requests a seat. All earlier steps are already done.
		type enter func() *kit.Answer
		ways := map[string]func(isolated bool, x *kit.Agent) (*grouptest.Group, enter){
			"an open group": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				r := grouptest.New(o.Agent("f"+kit.RandomHex(4)), obj{"enrollment_policy": "open", "isolated": isolated})
				return r, func() *kit.Answer { return r.Join(x) }
			},
			"by an invitation": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				r := grouptest.New(o.Agent("f"+kit.RandomHex(4)), obj{"members": []string{x.ID}, "isolated": isolated})
				return r, func() *kit.Answer { return r.Join(x) }
			},
			"as a nominee": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				f := o.Agent("f" + kit.RandomHex(4))
				r := grouptest.New(f, obj{"enrollment_policy": "majority", "isolated": isolated})
				r.Invited(f, x, "pending")
				return r, func() *kit.Answer { return r.Join(x) }
			},
			"as a nominee that others have to vote on": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				f, second := o.Agent("f"+kit.RandomHex(4)), o.Agent("e"+kit.RandomHex(4))
				r := grouptest.New(f, obj{"enrollment_policy": "open", "isolated": isolated})
				r.Joined(second)
				r.Patch(obj{"enrollment_policy": "majority"}).Want(200)
				r.Invited(f, x, "pending")
				return r, func() *kit.Answer { return r.Join(x) }
			},
			"an application": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				r := grouptest.New(o.Agent("f"+kit.RandomHex(4)), obj{"enrollment_policy": "unanimity", "isolated": isolated})
				return r, func() *kit.Answer { return r.Join(x) }
			},
			"by founding one": func(isolated bool, x *kit.Agent) (*grouptest.Group, enter) {
				name := grouptest.NewName()
				return nil, func() *kit.Answer { return grouptest.TryCreate(x, obj{"name": name, "isolated": isolated}) }
			},
		}
		for way, prepare := range ways {
			for _, row := range []struct{ in, wants, conflict bool }{
				{false, true, true}, {true, false, true}, {true, true, true}, {false, false, false},
			} {
				x := guests.Agent("x" + kit.RandomHex(4))
				r, ask := prepare(row.wants, x)
				home := grouptest.New(o.Agent("h"+kit.RandomHex(4)), obj{"enrollment_policy": "open", "isolated": row.in})
				home.Joined(x)
				a := ask().As("%s: in a group that is isolated %v, into one that is %v", way, row.in, row.wants)
				if !row.conflict {
					if a.Status != 200 && a.Status != 201 {
						a.Errorf("want to be admitted")
					}
					continue
				}
				a.Refused(409, "isolation_conflict")
				if r != nil && hasMember(r, x) {
					t.Errorf("%s: the group has the agent that it rejected", way)
				}
				home.Remove(x, x).Want(204)
				if a = ask().As("%s: after leaving", way); a.Status != 200 && a.Status != 201 {
					a.Errorf("want to be admitted")
				}
			}
		}
	})
}

// TestIsolationOfFounders: creating a group counts as joining it.
func TestIsolationOfFounders(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		first := grouptest.New(a)
		grouptest.New(a)
		grouptest.TryCreate(a, obj{"isolated": true}).As("in a group").Refused(409, "isolation_conflict")
		isolated := grouptest.New(b, obj{"isolated": true})
		grouptest.TryCreate(b, nil).As("in an isolated group").Refused(409, "isolation_conflict")
		grouptest.TryCreate(b, obj{"isolated": true}).As("in an isolated group").Refused(409, "isolation_conflict")
		if n := len(o.Pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the organization has %d groups, want 3: a rejected creation must not create one", n)
		}
		isolated.Patch(obj{"isolated": false}).Refused(409, "isolated_immutable")
		first.Patch(obj{"isolated": true}).Refused(409, "isolated_immutable")
		b.Request("DELETE", isolated.Path(""), nil).Want(204)
		grouptest.New(b) // a deleted group isolates nobody
	})
}

// TestIsolationAtApproval: if the applicant cannot be seated at approval, the request
// ends.
func TestIsolationAtApproval(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, f := o.Agent("a"), o.Agent("f")
		x := s.Org(t).Agent("x")
		r, home := grouptest.NewWithPolicy(a, "majority"), grouptest.New(f, obj{"isolated": true, "enrollment_policy": "open"})
		id := kit.Text(r.Applied(x), "id")
		home.Joined(x)
		if status := voted(r, a, id, "approve"); status != "canceled" {
			t.Errorf("approved while in an isolated group elsewhere: %s", status)
		}
		checkRequest(r, "approved while confined elsewhere", a, id, "status", "canceled", "reason", "isolation_conflict")
		r.CheckMembers("approved while confined elsewhere", a)
		home.Remove(x, x).Want(204)
		again := kit.Text(r.Applied(x), "id")
		if status := voted(r, a, again, "approve"); status != "approved" {
			t.Errorf("after leaving: %s", status)
		}
		r.CheckMembers("after leaving", a, x)
	})
}

// TestIsolatedAgents: an isolated agent and an outsider cannot exchange messages.
func TestIsolatedAgents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, other := s.Org(t), s.Org(t)
		a, b := o.Agent("inside"), other.Agent("fellow")
		colleague, outsider := o.Agent("colleague"), other.Agent("outsider")
		before := a.Send(outsider)
		answered := outsider.Reply(a.Send(outsider))
		talk := "/conversations/" + kit.Text(answered, "conversation_id") + "/status"
		r := grouptest.New(a, obj{"isolated": true, "enrollment_policy": "open"})
		r.Joined(b)
		for _, pair := range [][2]*kit.Agent{{a, outsider}, {outsider, a}, {a, colleague}, {colleague, a}, {b, outsider}, {outsider, b}} {
			from, to := pair[0], pair[1]
			what := from.Name + " to " + to.Name
			from.TrySend(to, nil).As("%s", what).Refused(403, "isolated_agent")
			from.Request("POST", "/messages", kit.ToHandle(to.Handle)).As("%s by handle", what).Refused(403, "isolated_agent")
			from.Request("POST", "/messages/sync?timeout_ms=1000", kit.Message(to)).As("%s, sync", what).Refused(403, "isolated_agent")
			for _, kind := range []string{"svc.v1.sender_key_distribution", "svc.v1.sender_key_request", "svc.v1.receipt"} {
				from.TrySend(to, obj{"type": kind}).As("%s, %s", what, kind).Refused(403, "isolated_agent")
			}
		}
		outsider.TryReply(before, nil).As("a reply to what came before").Refused(403, "isolated_agent")
		a.TryReply(answered, nil).As("a reply from inside").Refused(403, "isolated_agent")
		for _, g := range []*kit.Agent{a, outsider} {
			g.Request("PATCH", talk, obj{"status": "paused", "reason": "text"}).As("a reason of %s", g.Name).Refused(403, "isolated_agent")
		}
		a.Request("PATCH", talk, obj{"status": "paused"}).Want(200)
		b.Reply(a.Send(b))
		r.Broadcast(a)
		if n := len(b.Everything()); n != 2 {
			t.Errorf("%d messages inside the group, want 2", n)
		}
		if n := len(outsider.Everything()); n != 2 {
			t.Errorf("the outsider has %d messages, want the 2 from before", n)
		}
		// The server itself notifies an outsider of an invitation.
		r.Patch(obj{"enrollment_policy": "closed"}).Want(200)
		r.Invited(a, colleague, "invited")
		if rows := colleague.Everything(); len(rows) != 1 || rows[0]["type"] != "svc.v1.group_invite" {
			t.Errorf("the invitation into an isolated group: %d messages", len(rows))
		}
		inside := grouptest.CopiesOf(b)[0]
		r.Remove(b, b).Want(204)
		b.TryReply(inside, nil).As("a reply into the group that one has left").Refused(403, "isolated_agent")
		b.Send(outsider)
		b.TrySend(a, nil).As("who left is an outsider").Refused(403, "isolated_agent")
		outsider.Reply(b.Send(outsider))
	})
}

// TestGroupsOnly: an agent accepts messages in groups only. It still receives messages to
// its groups, replies, and the traffic that groups need for encryption.
func TestGroupsOnly(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		r := grouptest.NewWithPolicy(a, "closed", b)
		key, ask := obj{"type": "svc.v1.sender_key_distribution"}, obj{"type": "svc.v1.sender_key_request"}
		for _, row := range []struct {
			policy, code string
			from, to     *kit.Agent
		}{
			{"incoming_policy", "incoming_policy", a, b},
			{"outgoing_policy", "outgoing_policy", b, a},
		} {
			first := row.from.Send(row.to)
			b.Patch(b.Path(""), obj{row.policy: "groups_only"}).Want(200).Is(row.policy, "groups_only", "warnings", []any{})
			row.from.TrySend(row.to, nil).As("a fellow member, directly").Refused(403, row.code)
			row.from.TrySend(row.to, obj{"type": "svc.v1.receipt"}).As("a receipt").Refused(403, row.code)
			for _, exempt := range []obj{key, ask} {
				row.from.Send(row.to, exempt)
				if row.code == "incoming_policy" {
					stranger.TrySend(b, exempt).As("%v between strangers", exempt).Refused(403, row.code)
				} else {
					b.TrySend(stranger, exempt).As("%v between strangers", exempt).Refused(403, row.code)
				}
			}
			row.from.Reply(row.to.Reply(first))
			r.Broadcast(a)
			r.Broadcast(b)
			b.Patch(b.Path(""), obj{row.policy: map[string]string{"incoming_policy": "accept_all", "outgoing_policy": "send_all"}[row.policy]}).Want(200)
			row.from.Send(row.to)
		}
	})
}

// TestPolicyWarnings: an agent that accepts messages in groups only and is in no group
// has a warning in every answer that shows it.
func TestPolicyWarnings(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		g, other := o.Agent("g"), o.Agent("other")
		r := grouptest.New(other, obj{"enrollment_policy": "open"})
		warned := func(what string, want bool) {
			t.Helper()
			list := kit.Objects(o.Get("/agents").Want(200).List)
			for from, row := range map[string]obj{"its record": g.Get(g.Path("")).Want(200).Shaped(kit.AgentShape).Body, "the list": list[0]} {
				if warnings, _ := row["warnings"].([]any); len(warnings) > 0 != want {
					t.Errorf("%s: the warnings of %s are %v", what, from, row["warnings"])
				}
			}
		}
		warned("accepts all", false)
		for _, policy := range []obj{{"incoming_policy": "groups_only"}, {"incoming_policy": "accept_all", "outgoing_policy": "groups_only"}} {
			a := g.Patch(g.Path(""), policy).Want(200)
			if warnings, _ := a.At("warnings").([]any); len(warnings) == 0 {
				a.Errorf("setting it warns")
			}
			warned("in no group", true)
			r.Joined(g)
			warned("in a group", false)
			r.Remove(g, g).Want(204)
			warned("after leaving", true)
		}
	})
}
