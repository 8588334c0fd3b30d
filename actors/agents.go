package actors

import (
	"context"

	"parley"
	"parley/actors/agent"
)

type agentTurn = turn[*agent.State, agent.Command, agent.Event]

// ChangeAgent alters an agent: agent.Change, RotateKeys, IssuePollToken,
// RevokePollToken or Revoke. // spec: Agents
func (n *Node) ChangeAgent(_ context.Context, id parley.AgentID, c agent.Command) (*agent.State, error) {
	return question[*agent.State](n, agentStream(id), 0, c)
}

func (n *Node) agentKind() *kind[*agent.State, agent.Command, agent.Event] {
	return &kind[*agent.State, agent.Command, agent.Event]{
		stream: parley.AgentStream, rules: agentRules, stateEvery: 1,
		blank: func() *agent.State { return &agent.State{} },
		handle: func(t *agentTurn, request any) (any, error) {
			switch r := request.(type) {
			case DirectSend:
				return n.send(t, &r)
			case agent.Command:
				return n.changeAgent(t, r)
			}
			panic("agent: unknown request")
		},
		hear: func(*agentTurn, []byte) error { return nil },
	}
}

func (n *Node) changeAgent(t *agentTurn, c agent.Command) (any, error) {
	before := len(t.entry.Facts)
	if err := t.decide(c); err != nil {
		return nil, err
	}
	now := cloned(t.state, &agent.State{})
	if len(t.entry.Facts) == before {
		return now, nil
	}
	id := now.AgentID()
	switch c := c.(type) {
	case agent.RotateKeys:
		t.say(keyWords(id, c.Signing, c.Encryption)...)
	case agent.IssuePollToken:
		t.say(pollWord(id, c.Hash))
	case agent.Revoke:
		t.say(parley.Tell{To: orgStream(now.Owner()), Data: append([]byte{retired}, id[:]...)})
	}
	seq := t.entity.seq + uint64(len(t.entry.Facts))
	t.after = append(t.after, func() { n.facts.agents.publish(id, fact[*agent.State]{seq, now}) })
	return now, nil
}
