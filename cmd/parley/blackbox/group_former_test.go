package blackbox

import (
	"slices"
	"testing"
)

// checkParticipants checks the participants of a conversation as an agent sees them, the
// initiator first.
func checkParticipants(t testing.TB, g *agent, talk string, initiator *agent, others ...*agent) {
	t.Helper()
	a := g.request("GET", "/conversations/"+talk+"/participants", nil).want(200)
	rows := objects(a.list)
	var got, want []string
	for i, row := range rows {
		shaped(t, "a participant", row, "agent_id:uuid role:str joined_at:time")
		if began := initiator != nil && row["agent_id"] == initiator.id; (row["role"] == "initiator") != began || began && i != 0 {
			t.Errorf("participant %d is %v", i, row)
		}
		got = append(got, text(row, "agent_id"))
	}
	if initiator != nil {
		want = append(want, initiator.id)
	}
	for _, o := range others {
		want = append(want, o.id)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s sees the participants %v, want %v", g.name, got, want)
	}
}

// TestFormerMemberSeesItsRows: an agent that has left a group sees nothing of members
// that joined later or never sent it a message. It keeps what it had received.
func TestFormerMemberSeesItsRows(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		founder, speaker, listener, silent := s.org(t).agent("founder"), s.org(t).agent("speaker"), s.org(t).agent("listener"), s.org(t).agent("silent")
		r := founder.groupWithPolicy("closed", speaker, silent)
		first := r.broadcast(speaker)
		talk := text(first, "conversation_id")
		r.seats(listener)
		r.broadcast(founder)
		members := []*agent{founder, silent, listener}
		for _, g := range append(members, speaker) {
			checkParticipants(t, g, talk, speaker, members...)
		}
		r.remove(founder, speaker).want(204)
		r.remove(listener, listener).want(204)
		late := s.org(t).agent("late")
		r.seats(late)
		r.broadcast(late)
		r.broadcast(founder)

		checkParticipants(t, founder, talk, nil, founder, silent, late)
		checkParticipants(t, speaker, talk, speaker, founder, silent) // each received messages of the other
		checkParticipants(t, listener, talk, nil, founder, listener)  // the speaker's message predates the listener's membership
		for g, n := range map[*agent]int{speaker: 2, listener: 1, late: 2, silent: 4, founder: 4} {
			if rows := g.list("/conversations/"+talk+"/messages", "?limit=50"); len(rows) != n {
				t.Errorf("%s sees %d rows, want %d", g.name, len(rows), n)
			}
		}
		listener.request("GET", "/conversations/"+talk, nil).want(200).is("id", talk)
		s.org(t).agent("stranger").request("GET", "/conversations/"+talk+"/participants", nil).refused(403, "not_owner")

		// A reply is a row too, and an agent that rejoins is a member like any other.
		copied := func(g *agent) obj { return g.list("/conversations/"+talk+"/messages", "?order=desc&limit=50")[0] }
		silent.tryReply(copied(silent), nil).want(201)
		late.tryReply(first, nil).refused(403, "not_owner")
		r.seats(listener)
		checkParticipants(t, listener, talk, nil, founder, silent, late, listener)
	})
}

// TestFormerOrganizationSeesTheRowsOfAllItsAgents: an organization that has left sees all
// agents with which any of its agents shared rows, including agents that have left since.
func TestFormerOrganizationSeesTheRowsOfAllItsAgents(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		founder, reader := s.org(t).agent("founder"), s.org(t).agent("reader")
		first := s.org(t).agent("first")
		second := first.org.agent("second")
		r := founder.groupWithPolicy("closed", first, reader)
		talk := text(r.broadcast(first), "conversation_id")
		r.remove(founder, first).want(204)
		r.remove(founder, reader).want(204)
		r.seats(second)
		later := s.org(t).agent("later")
		r.seats(later)
		r.broadcast(second)
		r.remove(founder, second).want(204)
		r.remove(founder, later).want(204)
		latest := s.org(t).agent("latest")
		r.seats(latest)
		r.broadcast(latest)
		checkParticipants(t, first, talk, first, second, founder, reader, later)
		checkParticipants(t, reader, talk, first, reader)
		checkParticipants(t, latest, talk, nil, founder, latest)
	})
}

// TestFormerMemberDoesNotSteer: only members change the status of a group's conversation.
// A former member cannot, even if it began the conversation.
func TestFormerMemberDoesNotSteer(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		founder, starter, member := s.org(t).agent("founder"), s.org(t).agent("starter"), s.org(t).agent("member")
		r := founder.groupWithPolicy("closed", starter, member)
		talk := text(r.broadcast(starter), "conversation_id")
		move := func(g *agent, to string) *answer {
			return g.request("PATCH", "/conversations/"+talk+"/status", obj{"status": to})
		}
		move(starter, "open").as("who began it").want(200).is("status", "open")
		r.remove(founder, starter).want(204)
		for _, to := range []string{"paused", "completed", "rejected"} {
			move(starter, to).as("kicked, to %s", to).refused(403, "not_member")
			starter.patch("/conversations/"+talk+"/status", obj{"status": to}).as("kicked, unnamed").refused(403, "not_member")
		}
		colleague := starter.org.agent("colleague")
		r.seats(colleague)
		starter.patch("/conversations/"+talk+"/status", obj{"status": "paused"}).as("a colleague has a seat").refused(403, "role_not_allowed")
		move(starter, "paused").as("a colleague has a seat, but does not ask").refused(403, "not_member")
		move(member, "paused").refused(403, "role_not_allowed")
		s.org(t).agent("stranger").request("PATCH", "/conversations/"+talk+"/status", obj{"status": "paused"}).refused(403, "not_owner")
		founder.request("GET", "/conversations/"+talk, nil).want(200).is("status", "open")
		move(founder, "paused").as("an admin").want(200).is("status", "paused")
		r.seats(starter)
		move(starter, "completed").as("who began it, back again").want(200).is("status", "completed")
	})
}
