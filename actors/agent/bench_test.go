package agent_test

import (
	"encoding/binary"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

func nth(n int) (id parley.GroupID) {
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// busy returns an agent in the given number of groups, none of them isolated.
func busy(groups int) *agent.State {
	id := parley.AgentID(actorstest.Named("alice"))
	s := &agent.State{Id: id.Bytes(), OutgoingPolicy: agent.SendAll, IncomingPolicy: agent.AcceptAll}
	for n := range groups {
		s.Groups = append(s.Groups, &agent.Membership{Group: nth(n).Bytes(), Offer: 1})
	}
	return s
}

// BenchmarkEnter measures an agent in 1,000 groups that leaves one and joins it again.
func BenchmarkEnter(b *testing.B) {
	const groups = 1000
	s := busy(groups)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		offer := uint32(i/groups + 1)
		for _, c := range []agent.Command{
			agent.Depart{Group: nth(i % groups), Offer: offer}, agent.Enter{Group: nth(i % groups), Offer: offer + 1},
		} {
			events, err := agent.Decide(s, c, actorstest.Epoch)
			if err != nil || len(events) != 1 {
				b.Fatalf("%v: %v, %v", c, events, err)
			}
			agent.Evolve(s, events[0])
		}
	}
}

// BenchmarkSend measures the sending of a key. Both agents are in 1,000 groups and
// share only the last.
func BenchmarkSend(b *testing.B) {
	s, there := busy(1000), busy(1999).GetGroups()[999:]
	for name, c := range map[string]agent.Send{
		"free":   {RecipientKnown: true, RecipientGroups: there},
		"exempt": {RecipientKnown: true, RecipientGroups: there, RecipientGroupsOnly: true, KeyExchange: true},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := agent.Decide(s, c, actorstest.Epoch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
