package wire_test

import (
	"errors"
	"fmt"
	"testing"

	"parley/actors/wire"
	"parley/client/parley"
)

type (
	content struct {
		Type           string
		Body           []byte
		Payload        string
		Key            string
		Forged         error
		FromOrg, ToOrg parley.OrgID
		DayLimit       *int
	}
	// send has the fields of a message from one agent to another.
	send struct {
		content
		From, To                 parley.AgentID
		Known, Revoked, Confined bool
		Groups                   []*Note
		KeyExchange              bool
		Parent                   parley.ConversationID
		ParentFact               struct{ Named, Known, Participant bool }
		Metadata                 []byte
		Task, Oldest             bool
	}
)

func BenchmarkSend(b *testing.B) {
	types := wire.NewTypes()
	types.Add(send{})
	limit := 10_000
	s := any(send{
		content: content{Type: "text", Body: make([]byte, 1024), Key: "0190a6b0-0000-7000-8000-000000000001", FromOrg: parley.OrgID{1}, ToOrg: parley.OrgID{2}, DayLimit: &limit},
		From:    parley.AgentID{3}, To: parley.AgentID{4}, Known: true, Groups: []*Note{{Value: "membership"}, {Value: "membership"}},
	})
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer, _ = types.Append(buffer[:0], s)
		if _, err := types.Value(buffer); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buffer)))
}

func BenchmarkRefusal(b *testing.B) {
	types := newTypes()
	err := fmt.Errorf("send: %w", parley.ErrQuotaExceeded.OverQuota("messages_per_day", 10, 10, "2026-01-01T00:00:00Z"))
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = types.AppendError(buffer[:0], err)
		if got, failed := types.Error(buffer); failed != nil || !errors.Is(got, parley.ErrQuotaExceeded) {
			b.Fatal(got, failed)
		}
	}
}
