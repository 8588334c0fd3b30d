package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"

	"parley/bench/load"
)

// send is Send.
type send struct{ host *Host }

// Prepare implements Load.
func (s *send) Prepare(context.Context, int) (load.Dial, error) {
	h := s.host
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.courier(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &sending{
			courier: c, choice: h.choice(run, worker), agents: h.params.Agents,
			key: Key{Run: run, Worker: uint32(worker)},
		}, nil
	}, nil
}

// sending is the client of Send.
type sending struct {
	courier
	choice *rand.Rand
	agents int
	key    Key
}

// Do implements load.Client.
func (s *sending) Do(_ context.Context, n int, _ *load.Laps) error {
	s.key.N = uint32(n)
	return s.deliver(s.choice.IntN(s.agents), s.key)
}

// coldConversations is the number of conversations of Cold.
const coldConversations = 10_000

// talk is Hot and Cold: messages in conversations that one agent began.
type talk struct {
	host          *Host
	conversations int
	openings      []opening
}

// opening is a message that began a conversation.
type opening struct {
	id uuid
	to *agent
}

// Prepare implements Load. It starts conversations of the first planner with the workers in
// turn. All clients then write in them as that planner.
func (t *talk) Prepare(ctx context.Context, _ int) (load.Dial, error) {
	h := t.host
	if t.openings == nil {
		h.note("opening %d conversations", t.conversations)
		if err := t.open(ctx); err != nil {
			return nil, fmt.Errorf("%s: no conversations to talk in: %w", h.Name(), err)
		}
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.caller(ctx)
		if err != nil {
			return nil, err
		}
		return &talking{
			caller: c, request: newReplyRequest(h, h.world.globex.token), openings: t.openings,
			choice: h.choice(run, worker), key: Key{Run: run, Worker: uint32(worker)},
		}, nil
	}, nil
}

func (t *talk) open(ctx context.Context) error {
	h := t.host
	run := h.nextRun()
	openings := make([]opening, t.conversations)
	connections := min(fillers, t.conversations)
	err := together(ctx, connections, connections, func(ctx context.Context, worker int) error {
		c, err := h.caller(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		post := h.postCourier(c, 0)
		for n := 0; worker+n*connections < len(openings) && ctx.Err() == nil; n++ {
			at := worker + n*connections
			to := at % len(h.world.workers)
			if err := post.deliver(to, Key{Run: run, Worker: uint32(worker), N: uint32(n)}); err != nil {
				return err
			}
			told := c.book.entries
			openings[at] = opening{id: told[len(told)-1].id, to: h.world.workers[to]}
		}
		return ctx.Err()
	})
	if err == nil {
		err = h.settleFill()
	}
	t.openings = openings
	return err
}

// talking is the client of Hot and Cold: the sender of the first messages sends further
// messages in their conversations.
type talking struct {
	*caller
	request  *replyRequest
	openings []opening
	choice   *rand.Rand
	key      Key
}

// Do implements load.Client.
func (t *talking) Do(_ context.Context, n int, _ *load.Laps) error {
	t.key.N = uint32(n)
	to := t.openings[t.choice.IntN(len(t.openings))]
	_, err := t.reply(t.request, to.id, t.key, to.to)
	return err
}
