package scenario

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"parley/bench/load"
	"parley/bench/wire"
)

// coldConversations is the number of conversations of Cold.
const coldConversations = 10_000

// replyRequest is POST /messages/{id}/reply, with the id and the payload overwritten in
// place.
type replyRequest struct {
	bytes       []byte
	id, payload int
}

func (h *Host) replyRequest(token string) *replyRequest {
	placeholder := strings.Repeat("0", 36)
	payload := make([]byte, h.payloads.length())
	h.payloads.write(payload, Key{})
	body := appendContent([]byte("{"), h.world.messageType("task_response"), payload)
	r := &replyRequest{bytes: wire.Request("POST", "/messages/"+placeholder+"/reply", token, nil, body)}
	r.id = bytes.Index(r.bytes, []byte(placeholder))
	r.payload = bytes.Index(r.bytes, payload)
	return r
}

// reply replies to the message original with the message of key, which goes to the
// mailbox of to.
func (c *caller) reply(r *replyRequest, original uuid, key Key, to *agent) (message, error) {
	original.put(r.bytes[r.id:])
	c.payloads.write(r.bytes[r.payload:], key)
	m, err := c.post(r.bytes, key, to.box)
	if err != nil {
		return m, err
	}
	if string(m.recipientHandle) != to.handle {
		return m, wrong("another recipient than the one asked for")
	}
	return m, nil
}

// opening is a message that began a conversation.
type opening struct {
	id uuid
	to *agent
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

// prepareTalk starts conversations of the first planner with the workers in turn. All
// clients then write in them as that planner.
func (h *Host) prepareTalk(ctx context.Context, conversations int) (load.Dial, error) {
	if len(h.openings) < conversations {
		h.note("opening %d conversations", conversations)
		more, err := h.open(ctx, conversations)
		if err != nil {
			return nil, fmt.Errorf("%s: no conversations to talk in: %w", h.name, err)
		}
		h.openings = more
	}
	openings := h.openings[:conversations]
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.caller(ctx)
		if err != nil {
			return nil, err
		}
		return &talking{
			caller: c, request: h.replyRequest(h.world.globex.token), openings: openings,
			choice: h.choice(run, worker), key: Key{Run: run, Worker: uint32(worker)},
		}, nil
	}, nil
}

func (h *Host) open(ctx context.Context, conversations int) ([]opening, error) {
	run := h.nextRun()
	openings := make([]opening, conversations)
	connections := min(fillers, conversations)
	err := together(ctx, connections, connections, func(ctx context.Context, worker int) error {
		c, err := h.courier(ctx, 0)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		post := c.(*postCourier) // always so for Parley
		for n := 0; worker+n*connections < conversations && ctx.Err() == nil; n++ {
			at := worker + n*connections
			to := at % len(h.world.workers)
			if err := c.deliver(to, Key{Run: run, Worker: uint32(worker), N: uint32(n)}); err != nil {
				return err
			}
			told := post.book.entries
			openings[at] = opening{id: told[len(told)-1].id, to: h.world.workers[to]}
		}
		return ctx.Err()
	})
	if twice := h.acknowledged.settle(h.params.keep()); err == nil && twice > 0 {
		return nil, fmt.Errorf("%d messages got an id that another has", twice)
	}
	return openings, err
}

// Do implements load.Client.
func (t *talking) Do(_ context.Context, n int, _ *load.Laps) error {
	t.key.N = uint32(n)
	to := t.openings[t.choice.IntN(len(t.openings))]
	_, err := t.reply(t.request, to.id, t.key, to.to)
	return err
}
