package group_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

// groupOf returns a `majority` group with the given number of members, the first of
// them its admin.
func groupOf(members int) *group.State {
	s := &group.State{}
	group.Evolve(s, &group.Founded{
		Id: idOf("board"), Org: idOf("org a"), Name: "board", Policy: group.Majority, VoteHours: 72, AtMs: actorstest.Epoch.UnixMilli(),
	})
	for range members {
		arrive(s)
	}
	return s
}

// arrive seats one more member by the rules. It does not keep the event, just as a host
// drops an event after storing it.
func arrive(s *group.State) {
	role := group.RoleMember
	if len(s.Members()) == 0 {
		role = group.Admin
	}
	at := actorstest.Epoch.UnixMilli()
	next := nth(s.LastOffer + 1)
	group.Evolve(s, &group.Offered{AtMs: at, Offer: &group.Offer{
		Number: s.LastOffer + 1, Agent: next.Bytes(), Org: idOf("org a"), Role: role,
	}})
	group.Evolve(s, &group.Seated{Offer: s.LastOffer, Seat: s.LastSeat + 1, AtMs: at})
}

func nth(n uint32) (id parley.AgentID) {
	binary.BigEndian.PutUint32(id[12:], n)
	return id
}

// ask files the given number of requests and returns their ids.
func ask(tb testing.TB, s *group.State, requests int) (ids []parley.JoinRequestID) {
	tb.Helper()
	for range requests {
		id := nextRequest(s)
		do(tb, s, group.Join{RequestID: id, Agent: parley.AgentID(id), Org: owner("bea")})
		ids = append(ids, id)
	}
	return ids
}

// do decides a command and applies its events.
func do(tb testing.TB, s *group.State, c group.Command) []group.Event {
	events, err := group.Decide(s, c, actorstest.Epoch)
	if err != nil || len(events) == 0 {
		tb.Fatalf("%#v: %v, %v", c, events, err)
	}
	for _, e := range events {
		group.Evolve(s, e)
	}
	return events
}

// vote is the i-th of many votes. A fifth of the members vote in turn on each request
// and reverse their votes in each round, so no request is ever decided.
func vote(s *group.State, ids []parley.JoinRequestID, i int) group.CastVote {
	voters := len(s.Members()) / 5
	m := s.Members()[i/len(ids)%voters]
	round := i / (len(ids) * voters)
	return group.CastVote{Request: ids[i%len(ids)], By: group.Caller{Org: m.Org, Agent: m.Agent}, Approve: round%2 == 0}
}

func BenchmarkVote(b *testing.B) {
	s := groupOf(10_000)
	ids, i := ask(b, s, 100), 0
	b.ReportAllocs()
	for b.Loop() {
		do(b, s, vote(s, ids, i))
		i++
	}
}

// BenchmarkVoteUnnamed: the caller's organization names no agent and has one elector,
// at the end of the electorate.
func BenchmarkVoteUnnamed(b *testing.B) {
	s := groupOf(9_999)
	do(b, s, group.Invite{
		RequestID: nextRequest(s), By: group.Caller{Agent: nth(1)}, Agent: agent("bea"), Org: owner("bea"), Known: true, Founding: true,
	})
	do(b, s, group.Join{Agent: agent("bea"), Org: owner("bea")})
	do(b, s, group.Answer{Offer: s.LastOffer})
	ids, i := ask(b, s, 100), 0
	b.ReportAllocs()
	for b.Loop() {
		do(b, s, group.CastVote{Request: ids[i%len(ids)], By: group.Caller{Org: owner("bea")}, Approve: i/len(ids)%2 == 0})
		i++
	}
}

// BenchmarkDeparture: an elector of 100 open requests leaves and a new member joins.
func BenchmarkDeparture(b *testing.B) {
	s := groupOf(10_000)
	ids := ask(b, s, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%4_000 == 0 {
			b.StopTimer()
			s = groupOf(10_000)
			ids = ask(b, s, 100)
			b.StartTimer()
		}
		m := s.Members()[len(s.Members())/2]
		group.Evolve(s, &group.Voted{Request: ids[i%len(ids)].Bytes(), Seat: m.Seat, Approve: true})
		do(b, s, group.Remove{Agent: m.Agent, By: group.Caller{Org: m.Org, Agent: m.Agent}})
		arrive(s)
	}
}

// held returns how many bytes the result of build keeps in memory.
func held[T any](build func() T) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := build()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// Bounds on the memory of a group.
const (
	memberBytesMax  = 200
	requestBytesMax = 1000
	// voteBytesMax is for one vote cast.
	voteBytesMax = 40
)

func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(held(func() *group.State { return groupOf(10_000) }))/10_000, "B/member-of-10k")
		b.ReportMetric(float64(held(func() *group.State { return groupOf(100_000) }))/100_000, "B/member-of-100k")
	}
}

// TestMemory checks that a member, an open request and a vote stay within their bounds,
// and that no request holds a copy of its electorate.
func TestMemory(t *testing.T) {
	for _, members := range []int{10_000, 100_000} {
		if each := held(func() *group.State { return groupOf(members) }) / members; each > memberBytesMax {
			t.Errorf("%d bytes for each of %d members, %d allowed", each, members, memberBytesMax)
		}
	}
	const requests, voters = 100, 2_000
	s := groupOf(5 * voters)
	var ids []parley.JoinRequestID
	if each := held(func() *group.State { ids = ask(t, s, requests); return s }) / requests; each > requestBytesMax {
		t.Errorf("%d bytes for a request against %d members, %d allowed", each, 5*voters, requestBytesMax)
	}
	cast := func() *group.State {
		for i := range requests * voters {
			c := vote(s, ids, i)
			m, _ := s.Member(c.By.Agent)
			group.Evolve(s, &group.Voted{Request: c.Request.Bytes(), Seat: m.Seat, Approve: c.Approve})
		}
		return s
	}
	if each := held(cast) / (requests * voters); each > voteBytesMax {
		t.Errorf("%d bytes for each vote, %d allowed", each, voteBytesMax)
	}
}

// TestMemoryControl: a request with a copy of its electorate would exceed the bound.
func TestMemoryControl(t *testing.T) {
	s := groupOf(10_000)
	copies := func() (all [][]group.Member) {
		for range 10 {
			all = append(all, append([]group.Member(nil), s.Members()...))
		}
		return all
	}
	if each := held(copies) / 10; each <= requestBytesMax {
		t.Errorf("a copy of 10,000 members is %d bytes, within the bound of a request", each)
	}
}

// voteAllocations bounds the allocations of a vote and its fold: the event, the list
// that contains it, and the request before and after.
const voteAllocations = 6

// TestAllocationsOfVote: the cost of a vote does not depend on the number of members
// and requests.
func TestAllocationsOfVote(t *testing.T) {
	for _, size := range []struct{ members, requests int }{{100, 10}, {10_000, 100}} {
		s := groupOf(size.members)
		ids, i := ask(t, s, size.requests), 0
		for ; i < 3*len(ids); i++ {
			do(t, s, vote(s, ids, i))
		}
		got := testing.AllocsPerRun(len(ids)/2, func() { do(t, s, vote(s, ids, i)); i++ })
		if got > voteAllocations {
			t.Errorf("%d members, %d requests: %v allocations for a vote, %d allowed", size.members, size.requests, got, voteAllocations)
		}
	}
}
