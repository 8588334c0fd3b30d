package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/wire"
	"parley/client/parley"
)

// Create is the creation of one agent, as Growth.PrepareAgents prepares it.
const Create = "create"

// Growth makes one target grow.
type Growth struct {
	*Host
	unborn []*agent // workers that are being created
	// lengthy is how many messages the long inbox has.
	lengthy atomic.Int64
}

// PrepareAgents prepares the creation of workers until there are upTo of them. Each
// operation of the clients creates one. SettleAgents adds them to the host.
func (h *Growth) PrepareAgents(ctx context.Context, upTo int) (load.Dial, error) {
	have := len(h.world.workers)
	if upTo <= have {
		return nil, fmt.Errorf("%d agents are there already", have)
	}
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	signing, err := json.Marshal(h.world.key.SigningKey())
	if err != nil {
		return nil, err
	}
	encryption, err := json.Marshal(h.world.key.EncryptionKey())
	if err != nil {
		return nil, err
	}
	h.unborn = make([]*agent, upTo-have)
	unborn, next := h.unborn, new(atomic.Int64)
	rest := fmt.Sprintf(`","signing_public_key":%s,"encryption_public_key":%s}`, signing, encryption)
	return func(ctx context.Context, _ int) (load.Client, error) {
		conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
		if err != nil {
			return nil, err
		}
		return &creating{conn: conn, org: h.world.acme, first: have, unborn: unborn, next: next, rest: rest}, nil
	}, nil
}

// SettleAgents adds the created workers to the host, up to the first that was not
// created, and returns how many there are now.
func (h *Growth) SettleAgents() int {
	for _, a := range h.unborn {
		if a == nil {
			break
		}
		a.box = uint32(len(h.world.boxes))
		h.world.boxes = append(h.world.boxes, a)
		h.world.workers = append(h.world.workers, a)
	}
	h.unborn = nil
	h.params.Agents = len(h.world.workers)
	return h.params.Agents
}

// creating is the client of Create.
type creating struct {
	conn          *wire.HTTP
	org           *org
	first         int
	unborn        []*agent
	next          *atomic.Int64
	rest          string
	body, request []byte
}

// Do implements load.Client.
func (c *creating) Do(context.Context, int, *load.Laps) error {
	i := int(c.next.Add(1)) - 1
	if i >= len(c.unborn) {
		return load.Refused{Reason: "all agents were asked for already"}
	}
	c.body = strconv.AppendInt(append(c.body[:0], `{"name":"worker-`...), int64(c.first+i), 10)
	c.body = append(c.body, c.rest...)
	c.request = wire.AppendRequest(c.request[:0], "POST", "/agents", c.org.token, nil, c.body)
	answer, err := c.conn.Do(c.request)
	if err != nil {
		return err
	}
	if answer.Status != 201 {
		err, _ := refusal(answer)
		return err
	}
	made, err := readAgent(answer.Body, c.org)
	if err != nil {
		return err
	}
	c.unborn[i] = made
	return nil
}

// readAgent reads the answer to the creation of an agent.
func readAgent(body []byte, of *org) (*agent, error) {
	var told struct {
		ID     parley.AgentID `json:"id"`
		Handle string         `json:"handle"`
	}
	if json.Unmarshal(body, &told) != nil || told.ID.Zero() || told.Handle == "" {
		return nil, wrong("an agent without id or handle")
	}
	return &agent{org: of, id: told.ID, handle: told.Handle}, nil
}

// Close implements load.Client.
func (c *creating) Close() error { return c.conn.Close() }

// PrepareRing prepares messages from each of the first active workers to the next one,
// and from the last to the first. As many operations as there are workers make all of
// them senders and recipients.
func (h *Growth) PrepareRing(ctx context.Context, active int) (load.Dial, error) {
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	run, next := h.nextRun(), new(atomic.Int64)
	active = min(active, len(h.world.workers))
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.caller(ctx)
		if err != nil {
			return nil, err
		}
		r := &ringing{caller: c, workers: h.world.workers[:active], next: next, token: h.world.acme.token, kind: h.world.messageType("task_request")}
		r.key = Key{Run: run, Worker: uint32(worker)}
		r.payload = make([]byte, h.payloads.length())
		h.payloads.write(r.payload, r.key)
		return r, nil
	}, nil
}

// ringing is a client of PrepareRing.
type ringing struct {
	*caller
	workers                []*agent
	next                   *atomic.Int64
	token, kind            string
	key                    Key
	payload, body, request []byte
}

// Do implements load.Client.
func (r *ringing) Do(_ context.Context, n int, _ *load.Laps) error {
	at := int((r.next.Add(1) - 1) % int64(len(r.workers)))
	from, to := r.workers[at], r.workers[(at+1)%len(r.workers)]
	r.key.N = uint32(n)
	r.payloads.write(r.payload, r.key)
	r.body = fmt.Appendf(r.body[:0], `{"to_handle":"%s","from_handle":"%s",`, to.handle, from.handle)
	r.body = appendContent(r.body, r.kind, r.payload)
	r.request = wire.AppendRequest(r.request[:0], "POST", "/messages", r.token, nil, r.body)
	m, err := r.post(r.request, r.key, to.box)
	if err == nil && string(m.recipientHandle) != to.handle {
		err = wrong("another recipient than the one asked for")
	}
	return err
}

// longShare is the number of messages of a fill per message for the long inbox, until
// that has enough pages.
const longShare = 4

// PrepareFill prepares messages to randomly chosen workers. A part of them goes to the
// first worker until its inbox has pages pages.
func (h *Growth) PrepareFill(ctx context.Context, pages int) (load.Dial, error) {
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.courier(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &filling{
			courier: c, choice: h.choice(run, worker), agents: h.params.Agents, key: Key{Run: run, Worker: uint32(worker)},
			lengthy: &h.lengthy, enough: int64(pages)*pageSize + 1,
		}, nil
	}, nil
}

// filling is a client of PrepareFill.
type filling struct {
	courier
	choice  *rand.Rand
	agents  int
	key     Key
	lengthy *atomic.Int64
	enough  int64
}

// Do implements load.Client.
func (f *filling) Do(_ context.Context, n int, _ *load.Laps) error {
	f.key.N = uint32(n)
	long := n%longShare == 0 && f.lengthy.Load() < f.enough
	to := 0
	if !long {
		to = f.choice.IntN(f.agents)
	}
	err := f.deliver(to, f.key)
	if err == nil && to == 0 {
		f.lengthy.Add(1)
	}
	return err
}

// walkPage is the largest page size, to reach a deep page sooner.
const walkPage = 100

// PrepareDive finds the deepest full page of the long inbox, at most pages deep, and
// prepares reading it and the first page in turn. depth is 0 if the inbox has no second page;
// then there is no dial.
func (h *Growth) PrepareDive(ctx context.Context, pages int) (dial load.Dial, depth int, err error) {
	if depth = min(pages, int(h.lengthy.Load()/pageSize)); depth < 2 {
		return nil, 0, nil
	}
	if err := h.freshTokens(ctx); err != nil {
		return nil, 0, err
	}
	r, err := newReader(ctx, h.Host)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = r.Close() }()
	base := "/agents/" + h.world.workers[0].id.String() + "/messages?limit="
	cursor := ""
	for left := (depth - 1) * pageSize; left > 0; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		size := pageSize
		if left >= walkPage {
			size = walkPage
		}
		if cursor, err = r.step(base+strconv.Itoa(size)+cursor, size); err != nil {
			return nil, 0, fmt.Errorf("%s: no deep page: %w", h.Name(), err)
		}
		left -= size
	}
	first := base + strconv.Itoa(pageSize)
	return func(ctx context.Context, _ int) (load.Client, error) {
		r, err := newReader(ctx, h.Host)
		if err != nil {
			return nil, err
		}
		return &diving{reader: r, first: first, deep: first + cursor}, nil
	}, depth, nil
}

// step reads a page and returns the cursor of the next one.
func (r *reader) step(path string, size int) (cursor string, err error) {
	r.request = wire.AppendRequest(r.request[:0], "GET", path, r.token, nil, nil)
	answer, err := r.conn.Do(r.request)
	if err != nil {
		return "", err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return "", err
	}
	p, err := readPage(answer.Body, func(message) error { return nil })
	switch {
	case err != nil:
		return "", err
	case p.count != size || len(p.cursor) == 0:
		return "", wrong("an inbox that ends before all was read")
	}
	return "&cursor=" + escapeCursor(p.cursor), nil
}

// VerifySample reads each message that Params.Sample kept, by its id.
func (h *Growth) VerifySample(ctx context.Context) (*result.Verification, error) {
	if err := h.freshTokens(ctx); err != nil {
		return nil, err
	}
	h.acknowledged.settle(h.params.keep())
	entries := h.acknowledged.entries
	var found, missing, altered atomic.Int64
	err := together(ctx, verifyReaders, verifyReaders, func(ctx context.Context, reader int) error {
		conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for i := reader; i < len(entries); i += verifyReaders {
			kept, err := h.lookUp(conn, entries[i])
			switch {
			case err != nil:
				return err
			case kept == nil:
				missing.Add(1)
			case *kept:
				found.Add(1)
			default:
				altered.Add(1)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be verified: %w", h.Name(), err)
	}
	return &result.Verification{
		Acknowledged: int64(len(entries)), SampleOf: h.acknowledged.count,
		Found: found.Load(), Missing: missing.Load(), Altered: altered.Load(),
	}, nil
}

// lookUp reports whether a message is as it was sent; nil means that it is missing.
func (h *Growth) lookUp(conn *wire.HTTP, e entry) (kept *bool, err error) {
	answer, err := conn.Do(wire.Request("GET", "/messages/"+e.id.String(), h.world.acme.token, nil, nil))
	if err != nil {
		return nil, err
	}
	if answer.Status == 404 {
		return nil, nil
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return nil, err
	}
	m, err := readMessage(answer.Body)
	if err != nil {
		return nil, err
	}
	key, sound := h.payloads.read(m.payload)
	same := m.id == e.id && sound && key == e.key && string(m.toAgent) == h.world.boxes[e.box].id.String()
	return &same, nil
}
