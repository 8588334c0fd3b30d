package blackbox

import "testing"

// TestIsolation: a member of any group cannot join an isolated group, and a member of an
// isolated group cannot join any other. In each row an agent in a group of one kind tries
// to enter a group of the other kind by one of the ways in.
func TestIsolation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, guests := s.org(t), s.org(t)
		// enter requests a seat. All earlier steps are already done.
		type enter func() *answer
		ways := map[string]func(isolated bool, x *agent) (*group, enter){
			"an open group": func(isolated bool, x *agent) (*group, enter) {
				r := o.agent("f" + randomHex(4)).group(obj{"enrollment_policy": "open", "isolated": isolated})
				return r, func() *answer { return r.join(x) }
			},
			"by an invitation": func(isolated bool, x *agent) (*group, enter) {
				r := o.agent("f" + randomHex(4)).group(obj{"members": []string{x.id}, "isolated": isolated})
				return r, func() *answer { return r.join(x) }
			},
			"as a nominee": func(isolated bool, x *agent) (*group, enter) {
				f := o.agent("f" + randomHex(4))
				r := f.group(obj{"enrollment_policy": "majority", "isolated": isolated})
				r.invited(f, x, "pending")
				return r, func() *answer { return r.join(x) }
			},
			"as a nominee that others have to vote on": func(isolated bool, x *agent) (*group, enter) {
				f, second := o.agent("f"+randomHex(4)), o.agent("e"+randomHex(4))
				r := f.group(obj{"enrollment_policy": "open", "isolated": isolated})
				r.joined(second)
				r.patch(obj{"enrollment_policy": "majority"}).want(200)
				r.invited(f, x, "pending")
				return r, func() *answer { return r.join(x) }
			},
			"an application": func(isolated bool, x *agent) (*group, enter) {
				r := o.agent("f" + randomHex(4)).group(obj{"enrollment_policy": "unanimity", "isolated": isolated})
				return r, func() *answer { return r.join(x) }
			},
			"by founding one": func(isolated bool, x *agent) (*group, enter) {
				name := groupName()
				return nil, func() *answer { return x.tryCreateGroup(obj{"name": name, "isolated": isolated}) }
			},
		}
		for way, prepare := range ways {
			for _, row := range []struct{ in, wants, conflict bool }{
				{false, true, true}, {true, false, true}, {true, true, true}, {false, false, false},
			} {
				x := guests.agent("x" + randomHex(4))
				r, ask := prepare(row.wants, x)
				home := o.agent("h" + randomHex(4)).group(obj{"enrollment_policy": "open", "isolated": row.in})
				home.joined(x)
				a := ask().as("%s: in a group that is isolated %v, into one that is %v", way, row.in, row.wants)
				if !row.conflict {
					if a.status != 200 && a.status != 201 {
						a.errorf("want to be admitted")
					}
					continue
				}
				a.refused(409, "isolation_conflict")
				if r != nil && r.has(x) {
					t.Errorf("%s: the group has the agent that it rejected", way)
				}
				home.remove(x, x).want(204)
				if a = ask().as("%s: after leaving", way); a.status != 200 && a.status != 201 {
					a.errorf("want to be admitted")
				}
			}
		}
	})
}

// TestIsolationOfFounders: creating a group counts as joining it.
func TestIsolationOfFounders(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		first := a.group()
		a.group()
		a.tryCreateGroup(obj{"isolated": true}).as("in a group").refused(409, "isolation_conflict")
		isolated := b.group(obj{"isolated": true})
		b.tryCreateGroup(nil).as("in an isolated group").refused(409, "isolation_conflict")
		b.tryCreateGroup(obj{"isolated": true}).as("in an isolated group").refused(409, "isolation_conflict")
		if n := len(o.pages("/groups", "?limit=50")); n != 3 {
			t.Errorf("the organization has %d groups, want 3: a rejected creation must not create one", n)
		}
		isolated.patch(obj{"isolated": false}).refused(409, "isolated_immutable")
		first.patch(obj{"isolated": true}).refused(409, "isolated_immutable")
		b.request("DELETE", isolated.path(""), nil).want(204)
		b.group() // a deleted group isolates nobody
	})
}

// TestIsolationAtApproval: if the applicant cannot be seated at approval, the request
// ends.
func TestIsolationAtApproval(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, f := o.agent("a"), o.agent("f")
		x := s.org(t).agent("x")
		r, home := a.groupWithPolicy("majority"), f.group(obj{"isolated": true, "enrollment_policy": "open"})
		id := text(r.applied(x), "id")
		home.joined(x)
		if status := r.voted(a, id, "approve"); status != "canceled" {
			t.Errorf("approved while in an isolated group elsewhere: %s", status)
		}
		r.checkRequest("approved while confined elsewhere", a, id, "status", "canceled", "reason", "isolation_conflict")
		r.checkMembers("approved while confined elsewhere", a)
		home.remove(x, x).want(204)
		again := text(r.applied(x), "id")
		if status := r.voted(a, again, "approve"); status != "approved" {
			t.Errorf("after leaving: %s", status)
		}
		r.checkMembers("after leaving", a, x)
	})
}

// TestIsolatedAgents: an isolated agent and an outsider cannot exchange messages.
func TestIsolatedAgents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t)
		a, b := o.agent("inside"), other.agent("fellow")
		colleague, outsider := o.agent("colleague"), other.agent("outsider")
		before := a.send(outsider)
		answered := outsider.reply(a.send(outsider))
		r := a.group(obj{"isolated": true, "enrollment_policy": "open"})
		r.joined(b)
		for _, pair := range [][2]*agent{{a, outsider}, {outsider, a}, {a, colleague}, {colleague, a}, {b, outsider}, {outsider, b}} {
			from, to := pair[0], pair[1]
			what := from.name + " to " + to.name
			from.trySend(to, nil).as("%s", what).refused(403, "isolated_agent")
			from.request("POST", "/messages", toHandle(to.handle)).as("%s by handle", what).refused(403, "isolated_agent")
			from.request("POST", "/messages/sync?timeout_ms=1000", message(to)).as("%s, sync", what).refused(403, "isolated_agent")
			for _, kind := range []string{"svc.v1.sender_key_distribution", "svc.v1.sender_key_request", "svc.v1.receipt"} {
				from.trySend(to, obj{"type": kind}).as("%s, %s", what, kind).refused(403, "isolated_agent")
			}
		}
		outsider.tryReply(before, nil).as("a reply to what came before").refused(403, "isolated_agent")
		a.tryReply(answered, nil).as("a reply from inside").refused(403, "isolated_agent")
		b.reply(a.send(b))
		r.broadcast(a)
		if n := len(b.everything()); n != 2 {
			t.Errorf("%d messages inside the group, want 2", n)
		}
		if n := len(outsider.everything()); n != 2 {
			t.Errorf("the outsider has %d messages, want the 2 from before", n)
		}
		// The server itself notifies an outsider of an invitation.
		r.patch(obj{"enrollment_policy": "closed"}).want(200)
		r.invited(a, colleague, "invited")
		if rows := colleague.everything(); len(rows) != 1 || rows[0]["type"] != "svc.v1.group_invite" {
			t.Errorf("the invitation into an isolated group: %d messages", len(rows))
		}
		inside := copiesOf(b)[0]
		r.remove(b, b).want(204)
		b.tryReply(inside, nil).as("a reply into the group that one has left").refused(403, "isolated_agent")
		b.send(outsider)
		b.trySend(a, nil).as("who left is an outsider").refused(403, "isolated_agent")
		outsider.reply(b.send(outsider))
	})
}

// TestGroupsOnly: an agent accepts messages in groups only. It still receives messages to
// its groups, replies, and the traffic that groups need for encryption.
func TestGroupsOnly(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		stranger := s.org(t).agent("stranger")
		r := a.groupWithPolicy("closed", b)
		key, ask := obj{"type": "svc.v1.sender_key_distribution"}, obj{"type": "svc.v1.sender_key_request"}
		for _, row := range []struct {
			policy, code string
			from, to     *agent
		}{
			{"incoming_policy", "incoming_policy", a, b},
			{"outgoing_policy", "outgoing_policy", b, a},
		} {
			first := row.from.send(row.to)
			b.patch(b.path(""), obj{row.policy: "groups_only"}).want(200).is(row.policy, "groups_only", "warnings", []any{})
			row.from.trySend(row.to, nil).as("a fellow member, directly").refused(403, row.code)
			row.from.trySend(row.to, obj{"type": "svc.v1.receipt"}).as("a receipt").refused(403, row.code)
			for _, exempt := range []obj{key, ask} {
				row.from.send(row.to, exempt)
				if row.code == "incoming_policy" {
					stranger.trySend(b, exempt).as("%v between strangers", exempt).refused(403, row.code)
				} else {
					b.trySend(stranger, exempt).as("%v between strangers", exempt).refused(403, row.code)
				}
			}
			row.from.reply(row.to.reply(first))
			r.broadcast(a)
			r.broadcast(b)
			b.patch(b.path(""), obj{row.policy: map[string]string{"incoming_policy": "accept_all", "outgoing_policy": "send_all"}[row.policy]}).want(200)
			row.from.send(row.to)
		}
	})
}

// TestPolicyWarnings: an agent that accepts messages in groups only and is in no group
// has a warning in every answer that shows it.
func TestPolicyWarnings(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g, other := o.agent("g"), o.agent("other")
		r := other.group(obj{"enrollment_policy": "open"})
		warned := func(what string, want bool) {
			t.Helper()
			list := objects(o.get("/agents").want(200).list)
			for from, row := range map[string]obj{"its record": g.get(g.path("")).want(200).shaped(agentShape).body, "the list": list[0]} {
				if warnings, _ := row["warnings"].([]any); len(warnings) > 0 != want {
					t.Errorf("%s: the warnings of %s are %v", what, from, row["warnings"])
				}
			}
		}
		warned("accepts all", false)
		for _, policy := range []obj{{"incoming_policy": "groups_only"}, {"incoming_policy": "accept_all", "outgoing_policy": "groups_only"}} {
			a := g.patch(g.path(""), policy).want(200)
			if warnings, _ := a.at("warnings").([]any); len(warnings) == 0 {
				a.errorf("setting it warns")
			}
			warned("in no group", true)
			r.joined(g)
			warned("in a group", false)
			r.remove(g, g).want(204)
			warned("after leaving", true)
		}
	})
}
