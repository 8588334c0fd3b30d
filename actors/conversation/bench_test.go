package conversation_test

import (
	"encoding/binary"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

// BenchmarkBroadcast measures a message that is added to a group's conversation.
func BenchmarkBroadcast(b *testing.B) {
	s := club(b)
	c := conversation.Broadcast{MessageID: actorstest.Named("m2"), From: agent("bob")}
	b.ReportAllocs()
	for b.Loop() {
		events, err := conversation.Decide(s, c, actorstest.Epoch)
		if err != nil {
			b.Fatal(err)
		}
		conversation.Evolve(s, events[0])
	}
}

// BenchmarkStranger: an organization with 1,000 agents, none of them among the 1,000
// admins, requests a status change. No request to a conversation costs more.
func BenchmarkStranger(b *testing.B) {
	s := club(b)
	c := conversation.ChangeStatus{Status: "open"}
	for n := range uint32(1000) {
		id := agent("admin")
		binary.BigEndian.PutUint32(id[12:], n)
		c.Admins = append(c.Admins, id)
		binary.BigEndian.PutUint32(id[12:], n+1000)
		c.By = append(c.By, id)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conversation.Decide(s, c, actorstest.Epoch); err == nil {
			b.Fatal("a stranger changed the status")
		}
	}
}

// club returns a group's conversation after its first message.
func club(tb testing.TB) *conversation.State {
	s := &conversation.State{}
	events, err := conversation.Decide(s, conversation.Start{
		ID: actorstest.Named("talk"), Group: parley.GroupID(actorstest.Named("club")), Initiator: agent("alice"), MessageID: actorstest.Named("m1"),
	}, actorstest.Epoch)
	if err != nil {
		tb.Fatal(err)
	}
	conversation.Evolve(s, events[0])
	return s
}
