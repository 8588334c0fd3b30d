package group

import (
	"testing"
	"time"

	"parley/actors/encoding"
	"parley/client/parley"
)

// TestPendingRequestsAreCounted as they are filed, approved, settled and restored from
// a snapshot, so that a join does not have to scan them.
func TestPendingRequestsAreCounted(t *testing.T) {
	org := parley.OrgID{1}
	request := func(n byte, nominated bool) *Request {
		id, agent := parley.JoinRequestID{15: n}, parley.AgentID{15: n}
		r := &Request{Id: id.Bytes(), Agent: agent.Bytes(), Org: org.Bytes(), Status: Pending, Mark: 1, Electorate: 1}
		if nominated {
			r.InvitedBy = parley.AgentID{1}.Bytes()
		}
		return r
	}
	s := &State{Info: Info{ID: parley.GroupID{1}, Org: org}}
	expect := func(step string, pending, own int) {
		t.Helper()
		data, err := encoding.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		stored := &State{}
		if err := encoding.Unmarshal(data, stored); err != nil {
			t.Fatal(err)
		}
		for from, state := range map[string]*State{"folded": s, "stored": stored} {
			if state.pending != pending || state.applications[org] != own {
				t.Errorf("%s, %s: %d pending, %d of the organization; want %d and %d", step, from, state.pending, state.applications[org], pending, own)
			}
		}
	}
	a, b, c := request(1, false), request(2, false), request(3, true)
	for _, r := range []*Request{a, b, c} {
		Evolve(s, &Filed{Request: r})
	}
	expect("filed", 3, 2)
	Evolve(s, &Voted{Request: a.Id, Seat: 1, Approve: true})
	Evolve(s, &Consented{Request: c.Id})
	expect("voted", 3, 2)
	Evolve(s, &Carried{Request: c.Id})
	expect("carried", 2, 2)
	Evolve(s, &Resolved{Request: s.Request(c.RequestID()).settled(Accepted, "", time.Time{})})
	Evolve(s, &Resolved{Request: a.settled(Denied, "", time.Time{})})
	Evolve(s, &Resolved{Request: a.settled(Denied, "", time.Time{})})
	expect("settled", 1, 1)
}
