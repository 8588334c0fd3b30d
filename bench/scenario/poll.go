package scenario

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/bench/load"
	"parley/bench/wire"
)

const (
	// defaultPolled is the default of Params.Polled.
	defaultPolled = 1_000_000
	// instants is the number of times since which Poll requests counts, spread over the
	// period in which the messages arrived.
	instants = 256
)

// FigurePolled is the number of messages that the poll token of Poll covers.
const FigurePolled = "messages"

// polled is the first worker's mailbox, as polls count it.
type polled struct {
	path         string
	began, ended time.Time
	// requests has one request per instant; the first covers all messages, the last
	// none. counts has the correct answers.
	requests [][]byte
	counts   []int
}

// preparePoll fills the mailbox, once, and sends each request that the clients will
// repeat, to get the correct counts.
func (h *Host) preparePoll(ctx context.Context) (load.Dial, error) {
	if h.polled == nil {
		if err := h.fillPolled(ctx); err != nil {
			return nil, fmt.Errorf("%s: nothing to poll: %w", h.name, err)
		}
	}
	p := *h.polled
	ask := func(since time.Time) {
		query := "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
		p.requests = append(p.requests, wire.Request("GET", p.path+query, "", nil, nil))
	}
	ask(time.Unix(0, 0))
	for i := range instants {
		ask(p.began.Add(p.ended.Sub(p.began) * time.Duration(i) / (instants - 1)))
	}
	ask(time.Now().AddDate(1, 0, 0))
	conn, err := wire.DialHTTP(ctx, h.door.Address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	for _, request := range p.requests {
		n, err := poll(conn, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, err)
		}
		p.counts = append(p.counts, n)
	}
	falling := slices.IsSortedFunc(p.counts, func(a, b int) int { return b - a })
	if !falling || p.counts[0] < h.Polled() || p.counts[len(p.counts)-1] != 0 {
		return nil, fmt.Errorf("%s: polls of %d messages and more count %d and less", h.name, h.Polled(), p.counts[0])
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		conn, err := wire.DialHTTP(ctx, h.door.Address)
		if err != nil {
			return nil, err
		}
		choice := h.choice(run, worker)
		return &polling{conn: conn, mailbox: &p, pick: choice.IntN}, nil
	}, nil
}

// Polled returns the number of messages that the polled agent of Poll has.
func (h *Host) Polled() int {
	if h.params.Polled > 0 {
		return h.params.Polled
	}
	return defaultPolled
}

func (h *Host) fillPolled(ctx context.Context) error {
	h.note("filling one inbox with %d messages", h.Polled())
	owner := h.world.workers[0]
	address, err := owner.org.client.PollToken(ctx, owner.id)
	if err != nil {
		return err
	}
	at := strings.Index(address, "/poll/")
	if at < 0 {
		return wrong("a poll_url without a token")
	}
	p := &polled{path: address[at:], began: time.Now()}
	share := func(filler int) (int, func(int) int) {
		return (h.Polled() - filler + fillers - 1) / fillers, func(int) int { return 0 }
	}
	if err := h.deliverAll(ctx, share); err != nil {
		return err
	}
	p.ended = time.Now()
	h.polled = p
	return h.world.freshTokens(ctx)
}

// polling is the client of Poll.
type polling struct {
	conn    *wire.HTTP
	mailbox *polled
	pick    func(int) int
}

// Close implements load.Client.
func (p *polling) Close() error { return p.conn.Close() }

// Do implements load.Client.
func (p *polling) Do(context.Context, int, *load.Laps) error {
	at := p.pick(len(p.mailbox.requests))
	n, err := poll(p.conn, p.mailbox.requests[at])
	if err == nil && n != p.mailbox.counts[at] {
		err = wrong("another count than before")
	}
	return err
}

// poll sends the request and reads the count.
func poll(conn *wire.HTTP, request []byte) (int, error) {
	answer, err := conn.Do(request)
	if err != nil {
		return 0, err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return 0, err
	}
	walk := membersOf(answer.Body)
	for {
		name, value, ok := walk.next()
		if !ok {
			return 0, wrong("a poll without a count")
		}
		if string(name) == "count" {
			n, err := strconv.Atoi(string(value))
			if err != nil {
				err = wrong("a count that is no number")
			}
			return n, err
		}
	}
}
