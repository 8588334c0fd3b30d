package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"

	"parley/bench/load"
	"parley/bench/scenario/host"
)

// send is Send.
type send struct{ host *host.Host }

// Prepare implements Load.
func (s *send) Prepare(context.Context, int) (load.Dial, error) {
	h := s.host
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.Sender(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &sending{
			Sender: c, choice: h.Choice(run, worker), agents: h.Params.Agents,
			key: host.Key{Run: run, Worker: uint32(worker)},
		}, nil
	}, nil
}

// sending is the client of Send.
type sending struct {
	host.Sender
	choice *rand.Rand
	agents int
	key    host.Key
}

// Do implements load.Client.
func (s *sending) Do(_ context.Context, n int, _ *load.Parts) error {
	s.key.N = uint32(n)
	return s.Send(s.choice.IntN(s.agents), s.key)
}

// coldConversations is the number of conversations of Cold.
const coldConversations = 10_000

// replies is Hot and Cold: messages in conversations that one agent began.
type replies struct {
	host          *host.Host
	conversations int
	openings      []opening
}

// opening is a message that began a conversation.
type opening struct {
	id host.UUID
	to *host.Agent
}

// Prepare implements Load. It starts conversations of the first planner with the workers in
// turn. All clients then write in them as that planner.
func (t *replies) Prepare(ctx context.Context, _ int) (load.Dial, error) {
	h := t.host
	if t.openings == nil {
		h.Note("opening %d conversations", t.conversations)
		if err := t.open(ctx); err != nil {
			return nil, fmt.Errorf("%s: no conversations to reply in: %w", h.Name(), err)
		}
	}
	return h.Clients(func(c *host.Client, _ *load.Parts) error {
		to := t.openings[c.Choice.IntN(len(t.openings))]
		_, err := c.Reply(h.Deployment.SendingOrg, to.id, c.Key, to.to)
		return err
	}), nil
}

func (t *replies) open(ctx context.Context) error {
	h := t.host
	run := h.NextRun()
	openings := make([]opening, t.conversations)
	err := h.OnConnections(ctx, host.Fillers, len(openings), func(c *host.Caller, i int) error {
		to := h.Deployment.Recipients[i%len(h.Deployment.Recipients)]
		m, err := c.Send(h.Deployment.Senders[0], to, host.Key{Run: run, Worker: uint32(i)})
		openings[i] = opening{id: m.ID, to: to}
		return err
	})
	if err == nil {
		err = h.SettleUnmeasured()
	}
	t.openings = openings
	return err
}
