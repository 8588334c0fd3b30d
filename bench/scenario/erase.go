package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"

	"parley/bench/load"
	"parley/bench/wire"
	"parley/client/api"
)

// Erase is the erasure of an organization while others send, as Erasure performs it.
const Erase = "erase"

const (
	// erasedSample is about how many messages of an erased organization, and how many of its
	// agents, are asked for afterwards.
	erasedSample = 1000
	// erasedPolls is how many workers are polled afterwards. A server allows an address 60
	// polls a minute.
	erasedPolls = 16
)

// Erasure is an organization that is erased.
type Erasure struct {
	*Host
	org    *org
	agents []*agent
	log    acknowledgedLog
	next   atomic.Int64
	// polls are the poll tokens of the first workers.
	polls []string
	told  *api.Erasure
}

// Parts of the messages of an erased organization, as numbers in their keys: between its
// agents, from them to workers, and from workers to them.
const (
	partOwn = iota
	partSent
	partReceived
	erasedParts
)

// BeginErasure creates the organization that will be erased, with its agents.
func BeginErasure(ctx context.Context, h *Host, agents int) (*Erasure, error) {
	h.note("creating an organization of %d agents", agents)
	o, err := h.world.register(ctx, "initech-"+h.world.acme.credentials.OrgSlug)
	if err != nil {
		return nil, err
	}
	e := &Erasure{Host: h, org: o}
	if e.agents, err = h.world.create(ctx, o, "clerk-%d", 0, agents); err != nil {
		return nil, err
	}
	for _, worker := range h.world.workers[:min(erasedPolls, len(h.world.workers))] {
		address, err := worker.org.client.PollToken(ctx, worker.id)
		if err != nil {
			return nil, err
		}
		e.polls = append(e.polls, address[strings.LastIndexByte(address, '/')+1:])
	}
	return e, nil
}

// Prepare prepares messages of the organization that will be erased: a third between
// its agents, a third from them to workers, and a third from workers to them. Each begins a
// conversation.
func (e *Erasure) Prepare(ctx context.Context) (load.Dial, error) {
	h := e.Host
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	if err := e.org.freshToken(ctx); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
		if err != nil {
			return nil, err
		}
		return &erasedSender{
			caller: &caller{conn: conn, book: e.log.begin(), payloads: h.payloads}, erased: e, workers: h.world.workers,
			kind: h.world.messageType("task_request"), choice: h.choice(run, worker),
			key: Key{Run: run, Worker: uint32(worker)}, payload: make([]byte, h.payloads.length()),
		}, nil
	}, nil
}

// erasedSender is a client of Prepare.
type erasedSender struct {
	*caller
	erased                 *Erasure
	workers                []*agent
	kind                   string
	choice                 *rand.Rand
	key                    Key
	payload, body, request []byte
}

// Do implements load.Client.
func (s *erasedSender) Do(_ context.Context, n int, _ *load.Laps) error {
	own := s.erased.agents
	at := s.choice.IntN(len(own))
	from, to := own[at], s.workers[s.choice.IntN(len(s.workers))]
	part := uint8((s.erased.next.Add(1) - 1) % erasedParts)
	switch part {
	case partOwn:
		to = own[(at+1+s.choice.IntN(len(own)-1))%len(own)]
	case partReceived:
		from, to = to, from
	}
	s.key.N, s.key.Part = uint32(n), part
	s.payloads.write(s.payload, s.key)
	s.body = fmt.Appendf(s.body[:0], `{"to_handle":"%s","from_handle":"%s",`, to.handle, from.handle)
	s.body = appendContent(s.body, s.kind, s.payload)
	s.request = wire.AppendRequest(s.request[:0], "POST", "/messages", from.org.token, nil, s.body)
	_, err := s.post(s.request, s.key, to.box)
	return err
}

// SettlePart collects the answers to a part of the messages, of messages in all.
func (e *Erasure) SettlePart(messages int64) error {
	if twice := e.log.settle(int(max(1, messages/erasedSample))); twice > 0 {
		return fmt.Errorf("%d messages got an id that another has", twice)
	}
	return nil
}

// Erase erases the organization, and returns how many agents and messages that removed.
func (e *Erasure) Erase(ctx context.Context) (agents, messages int64, err error) {
	told, err := e.org.client.EraseOrg(ctx, e.org.credentials.OrgID)
	if err != nil {
		return 0, 0, err
	}
	e.told = told
	return told.AgentsDeleted, told.MessagesDeleted, nil
}

// Check checks the counts of the erasure, what CheckGone checks, and that the workers have the
// acknowledged messages of others only. Their messages must have been kept, see Params.Keep.
func (e *Erasure) Check(ctx context.Context) error {
	want := api.Erasure{
		OrgID: e.org.credentials.OrgID, ErasedAt: e.told.ErasedAt, AgentsDeleted: int64(len(e.agents)),
		MessagesDeleted: e.log.count, ConversationsDeleted: e.log.count,
	}
	if *e.told != want {
		return fmt.Errorf("the erasure counts %+v, want %+v", *e.told, want)
	}
	if err := e.CheckGone(ctx); err != nil {
		return err
	}
	return e.checkPolls(ctx)
}

// CheckGone checks that a sample of what was erased is gone for those who had access.
func (e *Erasure) CheckGone(ctx context.Context) error {
	h := e.Host
	if err := h.freshTokens(ctx); err != nil {
		return err
	}
	type read struct {
		path, token string
		want        int
	}
	reads := []read{{"/org", e.org.token, http.StatusUnauthorized}}
	for _, one := range e.log.entries {
		want := http.StatusGone
		if one.key.Part == partOwn { // workers never had access
			want = http.StatusNotFound
		}
		reads = append(reads, read{"/messages/" + one.id.String(), h.world.acme.token, want})
	}
	for i := 0; i < len(e.agents); i += max(1, len(e.agents)/erasedSample) {
		reads = append(reads, read{"/agents/" + e.agents[i].id.String(), h.world.acme.token, http.StatusGone})
	}
	return h.aside(ctx, verifyReaders, func(conn *wire.HTTP, reader, readers int) error {
		for i := reader; i < len(reads); i += readers {
			answer, err := conn.Do(wire.Request("GET", reads[i].path, reads[i].token, nil, nil))
			if err != nil {
				return err
			}
			if answer.Status != reads[i].want {
				return fmt.Errorf("GET %s after the erasure: status %d, want %d", reads[i].path, answer.Status, reads[i].want)
			}
		}
		return ctx.Err()
	})
}

// checkPolls compares the counts of polls with the messages that others sent.
func (e *Erasure) checkPolls(ctx context.Context) error {
	h := e.Host
	counts := map[uint32]int{}
	for _, one := range h.acknowledged.entries {
		counts[one.box]++
	}
	lost := len(h.acknowledged.unknown)
	for i, token := range e.polls {
		worker := h.world.workers[i]
		n, err := worker.org.client.Poll(ctx, api.Poll{Token: token})
		if err != nil {
			return err
		}
		if want := counts[worker.box]; n < want || n > want+lost {
			return fmt.Errorf("a poll of %s counts %d messages after the erasure, others sent %d", worker.handle, n, want)
		}
	}
	return nil
}
