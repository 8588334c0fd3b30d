package group_test

import (
	"strings"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// lawful returns a group that satisfies all laws: two members, a request on which the
// first has voted, and a reserved seat.
func lawful() *group.Snapshot {
	return &group.Snapshot{
		Id: idOf("club"), Org: idOf("org a"), Name: "club", LastSeat: 3, LastOffer: 4, LastRequestId: idOf("request"),
		Seats: []*group.Seat{
			{Number: 1, Agent: agent("ada").Bytes(), Org: owner("ada").Bytes(), Role: group.Admin, Offer: 1}, {Number: 3, Agent: agent("abe").Bytes(), Role: group.RoleMember, Offer: 3},
		},
		Offers: []*group.Offer{{Number: 4, Agent: agent("cat").Bytes(), Role: group.RoleMember}},
		Requests: []*group.Request{{
			Id: idOf("request"), Agent: agent("bea").Bytes(), Status: group.Pending, Policy: group.Majority,
			Mark: 2, Total: 2, Electorate: 1, Approvals: 1,
		}},
		Ballots: []*group.Ballot{{Request: idOf("request"), Votes: []*group.Vote{{Seat: 1, Approve: true}}}},
	}
}

// TestLawControl: each law reports a state that breaks it.
func TestLawControl(t *testing.T) {
	broken := map[string]func(*group.Snapshot){
		"":                                 func(*group.Snapshot) {},
		"without an admin":                 func(p *group.Snapshot) { p.Seats[0].Role = group.RoleMember },
		"a seat and a seat":                func(p *group.Snapshot) { p.Seats[1].Agent = agent("ada").Bytes() },
		"out of order":                     func(p *group.Snapshot) { p.LastSeat = 2 },
		"a seat and a request":             func(p *group.Snapshot) { p.Requests[0].Agent = agent("ada").Bytes() },
		"a seat and an offer":              func(p *group.Snapshot) { p.Offers[0].Agent = agent("abe").Bytes() },
		"an offer and an offer":            func(p *group.Snapshot) { p.Offers = append(p.Offers, p.GetOffers()[0]) },
		"electorate of 1, 2":               func(p *group.Snapshot) { p.Requests[0].Electorate = 2 },
		"electorate of 2, 1":               func(p *group.Snapshot) { p.Requests[0].Mark = 3 },
		"counted 2 and 0":                  func(p *group.Snapshot) { p.Requests[0].Approvals = 2 },
		"a newcomer voted":                 func(p *group.Snapshot) { p.Ballots[0].Votes[0].Seat = 3 },
		"of 2 ballots":                     func(p *group.Snapshot) { p.Ballots[0].Votes = append(p.Ballots[0].Votes, &group.Vote{Seat: 2}) },
		"an electorate that grew":          func(p *group.Snapshot) { p.Requests[0].Total = 0 },
		"7 seats of 6 are taken":           func(p *group.Snapshot) { overfill(p, 4) },
		"too much is remembered":           func(p *group.Snapshot) { p.Declined = make([]*group.Declined, group.DeclinedKept+1) },
		"a request and a request":          func(p *group.Snapshot) { p.Requests = append(p.Requests, anotherRequest()) },
		"1 for and 0 against of 1 ballots": func(p *group.Snapshot) { p.Requests[0].Denials = 1 },
	}
	for want, breakIt := range broken {
		p := lawful()
		breakIt(p)
		s := reshaped(&group.State{}, func(empty *group.Snapshot) {
			empty.Id, empty.Org, empty.Seats, empty.Offers, empty.Requests = p.Id, p.Org, p.Seats, p.Offers, p.Requests
			empty.Ballots, empty.LastSeat, empty.LastOffer, empty.LastRequestId = p.Ballots, p.LastSeat, p.LastOffer, p.LastRequestId
		})
		if got := lawOfState(p, s); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, the laws say %q", want, got)
		}
	}
}

func overfill(p *group.Snapshot, more int) {
	for _, name := range agentNames[2 : 2+more] {
		if name != "bea" {
			p.Offers = append(p.Offers, &group.Offer{Agent: agent(name).Bytes()})
		}
	}
	p.Offers = append(p.Offers, &group.Offer{Agent: agent("cyd").Bytes()})
}

func anotherRequest() *group.Request {
	return &group.Request{Id: idOf("request 2"), Agent: agent("bea").Bytes(), Status: group.Invited}
}

// TestChronicleControl: the laws about a whole life report events that break them.
func TestChronicleControl(t *testing.T) {
	filed := &group.Filed{Request: lawful().GetRequests()[0]}
	settled := &group.Resolved{Request: &group.Request{Id: filed.GetRequest().GetId(), Status: group.Denied, ResolvedMs: 1}}
	offered := func(n uint32) group.Event { return &group.Offered{Offer: &group.Offer{Number: n}} }
	for want, events := range map[string][]group.Event{
		"":                              {filed, offered(1), &group.Seated{Offer: 1, Seat: 1}, settled},
		"Voted after the request":       {filed, settled, &group.Voted{Request: settled.GetRequest().GetId()}},
		"Resolved after the request":    {filed, settled, settled},
		"filed twice":                   {filed, settled, filed},
		"offer 3 where 2":               {offered(1), offered(3)},
		"seat 2 where 1":                {offered(1), &group.Seated{Offer: 1, Seat: 2}},
		"settled twice, or was never":   {offered(1), &group.Withdrawn{Offer: 1}, &group.Withdrawn{Offer: 1}},
		"settled, and yet live":         {filed, &group.Resolved{Request: filed.GetRequest()}},
		"Carried after the request was": {&group.Carried{Request: settled.GetRequest().GetId()}},
	} {
		after := &group.State{}
		for _, e := range events {
			group.Evolve(after, e)
		}
		got := (&chronicle{}).judge(turn{Before: &group.State{}, After: after, Events: events, Now: actorstest.Epoch})
		if want == "" && strings.Contains(got, "settled") || !strings.Contains(got, want) {
			t.Errorf("want %q, the laws say %q", want, got)
		}
	}
	ended := &group.State{Info: group.Info{DeletedMs: 1}}
	if got := lawOfTheEnd(turn{Before: ended, After: ended, Events: []group.Event{offered(1)}}); !strings.Contains(got, "after the group was deleted") {
		t.Errorf("an offer by a deleted group: %q", got)
	}
	if got := lawOfRefusals(turn{Err: group.ErrFull, Events: []group.Event{offered(1)}}); !strings.Contains(got, "refused, and yet") {
		t.Errorf("a refusal with an offer: %q", got)
	}
}

// TestBroadcastLawsControl: the laws of broadcasts report turns that break them.
func TestBroadcastLawsControl(t *testing.T) {
	club := reshaped(&group.State{}, func(empty *group.Snapshot) { empty.Id, empty.Seats = lawful().GetId(), lawful().GetSeats() })
	talking := reshaped(club, func(p *group.Snapshot) { p.Conversation = idOf("conversation") })
	convened := &group.Convened{Conversation: idOf("conversation")}
	send := group.Send{From: agent("ada")}
	for want, step := range map[string]turn{
		"":                                    {Before: club, After: talking, Command: send, Events: []group.Event{convened}},
		"begins without need":                 {Before: talking, After: talking, Command: send, Events: []group.Event{convened}},
		"comes back":                          {Before: club, After: club, Command: send, Events: []group.Event{&group.Convened{}}},
		"Left by a broadcast":                 {Before: talking, After: talking, Command: send, Events: []group.Event{&group.Left{}}},
		"among 2 members to 1, in 00000000-0": {Before: club, After: club, Command: send},
		"among 2 members to 2":                {Before: talking, After: talking, Command: group.Send{From: agent("cat")}},
	} {
		so := &chronicle{convened: map[parley.ConversationID]bool{}}
		if got := so.broadcasts(step); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, the laws say %q", want, got)
		}
	}
}
