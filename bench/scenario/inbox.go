package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"parley/bench/load"
	"parley/bench/target"
	"parley/bench/wire"
)

// fillers is the number of connections that fill inboxes concurrently.
const fillers = 32

// fill makes sure that every worker has a page of messages. One filler sends all messages
// of a worker, one at a time, so that their order is known.
func (h *Host) fill(ctx context.Context) error {
	if h.filled >= pageSize {
		return nil
	}
	h.note("filling %d inboxes with %d messages each", h.params.Agents, pageSize)
	err := h.deliverAll(ctx, func(filler int) (count int, to func(n int) int) {
		own := (h.params.Agents - filler + fillers - 1) / fillers
		return own * pageSize, func(n int) int { return filler + n%own*fillers }
	})
	if err != nil {
		return fmt.Errorf("%s: inboxes cannot be filled: %w", h.name, err)
	}
	h.filled = pageSize
	return nil
}

// deliverAll sends the messages that share assigns to each filler.
func (h *Host) deliverAll(ctx context.Context, share func(filler int) (count int, to func(n int) int)) error {
	run := h.nextRun()
	err := together(ctx, fillers, fillers, func(ctx context.Context, worker int) error {
		c, err := h.courier(ctx, worker)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		count, to := share(worker)
		for n := range count {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.deliver(to(n), Key{Run: run, Worker: uint32(worker), N: uint32(n)}); err != nil {
				return err
			}
		}
		return nil
	})
	if twice := h.acknowledged.settle(h.params.keep()); err == nil && twice > 0 {
		return fmt.Errorf("%d messages got an id that another has", twice)
	}
	return err
}

func (h *Host) prepareInbox(ctx context.Context) (load.Dial, error) {
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		if h.door.Kind == target.NATS {
			conn, err := wire.DialNATS(ctx, h.door.Address)
			if err != nil {
				return nil, err
			}
			return &natsReading{conn: conn, choice: h.choice(run, worker), agents: h.params.Agents}, nil
		}
		r, err := h.reader(ctx)
		if err != nil {
			return nil, err
		}
		return &reading{reader: r, choice: h.choice(run, worker)}, nil
	}, nil
}

// reader reads inbox pages and checks them.
type reader struct {
	conn     *wire.HTTP
	answers  answers
	payloads *payloads
	token    string
	agents   int
	workers  []*agent // nil for a plain peer
	request  []byte
	path     []byte
}

func (h *Host) reader(ctx context.Context) (*reader, error) {
	conn, err := wire.DialHTTP(ctx, h.door.Address)
	if err != nil {
		return nil, err
	}
	r := &reader{conn: conn, payloads: h.payloads, agents: h.params.Agents, token: h.door.Token}
	if h.world != nil {
		r.token, r.workers = h.world.acme.token, h.world.workers
	}
	return r, nil
}

func (r *reader) Close() error { return r.conn.Close() }

// newest reads the first page of a worker, which must be full.
func (r *reader) newest(worker int) (page, error) {
	r.path = append(r.path[:0], "/agents/"...)
	if r.workers == nil {
		r.path = strconv.AppendInt(r.path, int64(worker), 10)
	} else {
		r.path, _ = r.workers[worker].id.AppendText(r.path)
	}
	r.path = append(r.path, "/messages?limit=20"...)
	return r.read(string(r.path), r.owner(worker))
}

// owner returns the recipient of the messages of a page; nil if the system does not
// report it.
func (r *reader) owner(worker int) *agent {
	if r.workers == nil {
		return nil
	}
	return r.workers[worker]
}

// read reads a page, which must be full, and checks every message on it.
func (r *reader) read(path string, owner *agent) (page, error) {
	r.request = wire.AppendRequest(r.request[:0], "GET", path, r.token, nil, nil)
	answer, err := r.conn.Do(r.request)
	if err != nil {
		return page{}, err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return page{}, err
	}
	var o order
	var to [36]byte
	if owner != nil {
		uuid(owner.id).put(to[:])
	}
	p, err := r.answers.readPage(answer.Body, func(m message) error {
		key, sound := r.payloads.read(m.payload)
		switch {
		case !sound:
			return wrong("a payload that nobody sent")
		case owner != nil && string(m.toAgent) != string(to[:]):
			return wrong("a message to another agent")
		}
		return o.next(key)
	})
	switch {
	case err != nil:
		return page{}, err
	case p.count != pageSize:
		return page{}, wrong("a page of " + strconv.Itoa(p.count) + " instead of 20 messages")
	}
	return p, nil
}

// reading is the client of Inbox.
type reading struct {
	*reader
	choice *rand.Rand
}

// Do implements load.Client.
func (r *reading) Do(context.Context, int, *load.Laps) error {
	_, err := r.newest(r.choice.IntN(r.agents))
	return err
}

// natsReading is the client of Inbox for NATS. It reads in the cheapest way that
// JetStream offers, so that the peer is measured at its best.
type natsReading struct {
	conn   *wire.NATS
	choice *rand.Rand
	agents int
}

// Do implements load.Client.
func (r *natsReading) Do(context.Context, int, *load.Laps) error {
	n, err := r.conn.DirectPage(natsStream, natsSubject+strconv.Itoa(r.choice.IntN(r.agents)), pageSize)
	if err == nil && n != pageSize {
		err = wrong("a page of " + strconv.Itoa(n) + " instead of 20 messages")
	}
	return err
}

// Close implements load.Client.
func (r *natsReading) Close() error { return r.conn.Close() }

// longInbox is the mailbox of the first worker once it has Depth pages.
type longInbox struct {
	// first and deep are the paths of the first page and of the last.
	first, deep string
}

func (h *Host) prepareDeep(ctx context.Context) (load.Dial, error) {
	if h.params.Depth < 2 {
		return nil, fmt.Errorf("%s compares page 1 with another: the depth should be 2 or more", Deep)
	}
	if h.long == nil {
		if err := h.lengthen(ctx); err != nil {
			return nil, fmt.Errorf("%s: no deep page: %w", h.name, err)
		}
	}
	return func(ctx context.Context, _ int) (load.Client, error) {
		r, err := h.reader(ctx)
		if err != nil {
			return nil, err
		}
		return &diving{reader: r, inbox: h.long}, nil
	}, nil
}

// lengthen fills the inbox of the first worker and walks to the page at the requested
// depth.
func (h *Host) lengthen(ctx context.Context) error {
	count := h.params.Depth*pageSize + 1
	h.note("filling one inbox with %d messages", count)
	share := func(int) (int, func(int) int) {
		return (count + fillers - 1) / fillers, func(int) int { return 0 }
	}
	if err := h.deliverAll(ctx, share); err != nil {
		return err
	}
	r, err := h.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	owner := h.world.workers[0]
	long := longInbox{first: "/agents/" + owner.id.String() + "/messages?limit=20"}
	path := long.first
	for range h.params.Depth - 1 {
		p, err := r.read(path, owner)
		if err != nil {
			return err
		}
		if len(p.cursor) == 0 {
			return wrong("an inbox that ends before all was read")
		}
		path = long.first + "&cursor=" + escapeCursor(p.cursor)
	}
	long.deep = path
	h.long = &long
	return nil
}

// diving is the client of Deep.
type diving struct {
	*reader
	inbox *longInbox
}

// Do implements load.Client.
func (d *diving) Do(_ context.Context, n int, laps *load.Laps) error {
	path, lap := d.inbox.first, "first page"
	if n%2 == 1 {
		path, lap = d.inbox.deep, "deep page"
	}
	if _, err := d.read(path, nil); err != nil {
		return err
	}
	laps.Note(lap, time.Since(laps.Intended()))
	return nil
}
