package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// publish publishes a card that uses every field.
func (r *testNode) publish(id parley.AgentID, name string) *record.Card {
	r.t.Helper()
	return must(r.node.Agents.PublishCard(context.Background(), id, agent.PublishCard{Public: true, A2AEnabled: true}, fullCard(name)))(r.t).Card
}

// fullCard returns a card in which every field is set that its owner sets.
func fullCard(name string) *record.Card {
	return &record.Card{
		Name: name, Description: "Answers questions.", Version: proto.String("1.2.0"),
		Provider:          &record.CardProvider{Organization: "Acme", Url: "https://acme.example"},
		Capabilities:      &record.CardCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"application/json"},
		Skills: []*record.CardSkill{{
			Id: "ask", Name: "Ask", Description: "Ask anything.", Tags: []string{"questions"}, Examples: []string{"Why?"},
			InputModes: []string{"text/plain"}, OutputModes: []string{"text/html"},
		}},
		Categories: []string{"support"}, Languages: []string{"en-gb"}, Jurisdiction: "DE", PricingModel: "free",
		Sla:                &record.CardServiceLevel{ResponseTimeP95Ms: proto.Int64(200), AvailabilityPercent: proto.Float64(99.5)},
		A2AAcceptCleartext: true, MessageTypesAccepted: []string{"svc.v1.dm"},
		PayloadSchemas: []*record.CardSchema{{MessageType: "svc.v1.dm", Uri: "https://acme.example/dm.json"}},
	}
}

func changeCard(x *tamperer, change func(*record.Card)) {
	x.alter('R', ofTable(journal.CardTable), func(v []byte) []byte {
		c := &record.Card{}
		if err := encoding.Unmarshal(v, c); err != nil {
			x.t.Fatal(err)
		}
		change(c)
		row, err := encoding.Marshal(c)
		if err != nil {
			x.t.Fatal(err)
		}
		return row
	})
}

// TestCardIsReadAsPublished publishes a card twice, withdraws it, and publishes it again.
// What is read is what was published last, before and after a restart.
func TestCardIsReadAsPublished(t *testing.T) {
	at := newManualClock(noon)
	r := newTestNode(t, withClock(at.now))
	ctx := context.Background()
	_, ids := r.agents("acme", 2)
	none := func(id parley.AgentID) {
		t.Helper()
		if c, err := r.node.Agents.Card(ctx, id); !errors.Is(err, query.ErrNoCard) {
			t.Fatalf("card %v, %v", c, err)
		}
	}
	same := func(want *record.Card) {
		t.Helper()
		if c := must(r.node.Agents.Card(ctx, ids[0]))(t); !proto.Equal(c, want) {
			t.Fatalf("read %v, want %v", c, want)
		}
	}
	none(ids[0])
	first := r.publish(ids[0], "first")
	same(first)
	at.advance(time.Minute)
	second := r.publish(ids[0], "second")
	same(second)
	if !second.CreatedAt().Equal(noon) || !second.UpdatedAt().Equal(noon.Add(time.Minute)) || second.GetRevision() != 2 || !second.IsPublic || !second.A2AEnabled {
		t.Errorf("the second card is %v", second)
	}
	r.restart()
	same(second)
	must(r.node.Agents.Change(ctx, ids[0], agent.WithdrawCard{}))(t)
	none(ids[0])
	third := r.publish(ids[0], "third")
	if !third.CreatedAt().Equal(noon.Add(time.Minute)) || third.GetRevision() != 3 {
		t.Errorf("the third card is %v", third)
	}
	other := r.publish(ids[1], "other")
	found := map[parley.AgentID]*record.Card{}
	if err := r.node.Agents.EachCard(ctx, func(id parley.AgentID, c *record.Card) bool { found[id] = c; return true }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || !proto.Equal(found[ids[0]], third) || !proto.Equal(found[ids[1]], other) {
		t.Errorf("the scan found %v", found)
	}
	must(r.node.Agents.Change(ctx, ids[0], agent.Revoke{}))(t)
	none(ids[0])
	if _, err := r.node.Agents.PublishCard(ctx, ids[0], agent.PublishCard{}, fullCard("late")); !errors.Is(err, agent.ErrRevoked) {
		t.Errorf("a revoked agent publishes: %v", err)
	}
	none(ids[0])
	reads := 0
	if err := r.node.Agents.EachCard(ctx, func(parley.AgentID, *record.Card) bool { reads++; return false }); err != nil || reads != 1 {
		t.Errorf("%d cards were read, %v", reads, err)
	}
}

// TestCardOfARefusedTurn checks that a refused card leaves the published one as it is.
func TestCardOfARefusedTurn(t *testing.T) {
	r := newTestNode(t)
	_, ids := r.agents("acme", 1)
	published := r.publish(ids[0], "first")
	_, err := r.node.Agents.PublishCard(context.Background(), ids[0], agent.PublishCard{NamesSecurity: true}, fullCard("second"))
	if !errors.Is(err, agent.ErrCardSecurity) {
		t.Fatalf("refused with %v", err)
	}
	if c := must(r.node.Agents.Card(context.Background(), ids[0]))(t); !proto.Equal(c, published) {
		t.Errorf("the card is %v", c)
	}
}
