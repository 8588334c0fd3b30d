package groups

import (
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// checkParticipants checks the participants of a conversation as an agent sees them, the
// initiator first.
func checkParticipants(t testing.TB, g *kit.Agent, talk string, initiator *kit.Agent, others ...*kit.Agent) {
	t.Helper()
	a := g.Request("GET", "/conversations/"+talk+"/participants", nil).Want(200)
	rows := kit.Objects(a.List)
	var got, want []string
	for i, row := range rows {
		kit.Shaped(t, "a participant", row, "agent_id:uuid role:str joined_at:time")
		if began := initiator != nil && row["agent_id"] == initiator.ID; (row["role"] == "initiator") != began || began && i != 0 {
			t.Errorf("participant %d is %v", i, row)
		}
		got = append(got, kit.Text(row, "agent_id"))
	}
	if initiator != nil {
		want = append(want, initiator.ID)
	}
	for _, o := range others {
		want = append(want, o.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s sees the participants %v, want %v", g.Name, got, want)
	}
}

// TestFormerMemberSeesItsRows: an agent that has left a group sees nothing of members
// that joined later or never sent it a message. It keeps what it had received.
func TestFormerMemberSeesItsRows(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		founder, speaker, listener, silent := s.Org(t).Agent("founder"), s.Org(t).Agent("speaker"), s.Org(t).Agent("listener"), s.Org(t).Agent("silent")
		r := grouptest.NewWithPolicy(founder, "closed", speaker, silent)
		first := r.Broadcast(speaker)
		talk := kit.Text(first, "conversation_id")
		r.Seats(listener)
		r.Broadcast(founder)
		members := []*kit.Agent{founder, silent, listener}
		for _, g := range append(members, speaker) {
			checkParticipants(t, g, talk, speaker, members...)
		}
		r.Remove(founder, speaker).Want(204)
		r.Remove(listener, listener).Want(204)
		late := s.Org(t).Agent("late")
		r.Seats(late)
		r.Broadcast(late)
		r.Broadcast(founder)

		checkParticipants(t, founder, talk, nil, founder, silent, late)
		checkParticipants(t, speaker, talk, speaker, founder, silent) // each received messages of the other
		checkParticipants(t, listener, talk, nil, founder, listener)  // the speaker's message predates the listener's membership
		for g, n := range map[*kit.Agent]int{speaker: 2, listener: 1, late: 2, silent: 4, founder: 4} {
			if rows := g.List("/conversations/"+talk+"/messages", "?limit=50"); len(rows) != n {
				t.Errorf("%s sees %d rows, want %d", g.Name, len(rows), n)
			}
		}
		listener.Request("GET", "/conversations/"+talk, nil).Want(200).Is("id", talk)
		s.Org(t).Agent("stranger").Request("GET", "/conversations/"+talk+"/participants", nil).Refused(403, "not_owner")

		// A reply is a row too, and an agent that rejoins is a member like any other.
		copied := func(g *kit.Agent) obj { return g.List("/conversations/"+talk+"/messages", "?order=desc&limit=50")[0] }
		silent.TryReply(copied(silent), nil).Want(201)
		late.TryReply(first, nil).Refused(403, "not_owner")
		r.Seats(listener)
		checkParticipants(t, listener, talk, nil, founder, silent, late, listener)
	})
}

// TestFormerOrganizationSeesTheRowsOfAllItsAgents: an organization that has left sees all
// agents with which any of its agents shared rows, including agents that have left since.
func TestFormerOrganizationSeesTheRowsOfAllItsAgents(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		founder, reader := s.Org(t).Agent("founder"), s.Org(t).Agent("reader")
		first := s.Org(t).Agent("first")
		second := first.Org.Agent("second")
		r := grouptest.NewWithPolicy(founder, "closed", first, reader)
		talk := kit.Text(r.Broadcast(first), "conversation_id")
		r.Remove(founder, first).Want(204)
		r.Remove(founder, reader).Want(204)
		r.Seats(second)
		later := s.Org(t).Agent("later")
		r.Seats(later)
		r.Broadcast(second)
		r.Remove(founder, second).Want(204)
		r.Remove(founder, later).Want(204)
		latest := s.Org(t).Agent("latest")
		r.Seats(latest)
		r.Broadcast(latest)
		checkParticipants(t, first, talk, first, second, founder, reader, later)
		checkParticipants(t, reader, talk, first, reader)
		checkParticipants(t, latest, talk, nil, founder, latest)
	})
}

// TestFormerMemberDoesNotSteer: only members change the status of a group's conversation.
// A former member cannot, even if it began the conversation.
func TestFormerMemberDoesNotSteer(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		founder, starter, member := s.Org(t).Agent("founder"), s.Org(t).Agent("starter"), s.Org(t).Agent("member")
		r := grouptest.NewWithPolicy(founder, "closed", starter, member)
		talk := kit.Text(r.Broadcast(starter), "conversation_id")
		move := func(g *kit.Agent, to string) *kit.Answer {
			return g.Request("PATCH", "/conversations/"+talk+"/status", obj{"status": to})
		}
		move(starter, "open").As("who began it").Want(200).Is("status", "open")
		r.Remove(founder, starter).Want(204)
		for _, to := range []string{"paused", "completed", "rejected"} {
			move(starter, to).As("kicked, to %s", to).Refused(403, "not_member")
			starter.Patch("/conversations/"+talk+"/status", obj{"status": to}).As("kicked, unnamed").Refused(403, "not_member")
		}
		colleague := starter.Org.Agent("colleague")
		r.Seats(colleague)
		starter.Patch("/conversations/"+talk+"/status", obj{"status": "paused"}).As("a colleague has a seat").Refused(403, "role_not_allowed")
		move(starter, "paused").As("a colleague has a seat, but does not ask").Refused(403, "not_member")
		move(member, "paused").Refused(403, "role_not_allowed")
		s.Org(t).Agent("stranger").Request("PATCH", "/conversations/"+talk+"/status", obj{"status": "paused"}).Refused(403, "not_owner")
		founder.Request("GET", "/conversations/"+talk, nil).Want(200).Is("status", "open")
		move(founder, "paused").As("an admin").Want(200).Is("status", "paused")
		r.Seats(starter)
		move(starter, "completed").As("who began it, back again").Want(200).Is("status", "completed")
	})
}
