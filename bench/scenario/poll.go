package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
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
	// polls has the path for each instant; the first covers all messages, the last
	// none. counts has the correct answers.
	polls  []string
	counts []int
}

// poll is Poll.
type poll struct {
	host *host.Host
	set  *Set
	// mailbox is nil until it was filled.
	mailbox *polled
}

// Run implements Scenario.
func (s *poll) Run(ctx context.Context, r *host.Round) error {
	err := loads{s, s.set, Poll}.Run(ctx, r)
	r.Result.Figures = map[string]float64{FigurePolled: float64(s.host.Params.Messages)}
	return err
}

// Prepare implements Load. It fills the mailbox, once, and sends each request that the clients
// will repeat, to get the correct counts.
func (s *poll) Prepare(ctx context.Context, _ int) (load.Dial, error) {
	h := s.host
	if s.mailbox == nil {
		if err := s.fill(ctx); err != nil {
			return nil, fmt.Errorf("%s: nothing to poll: %w", h.Name(), err)
		}
	}
	p := *s.mailbox
	ask := func(since time.Time) {
		query := "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
		p.polls = append(p.polls, p.path+query)
	}
	ask(time.Unix(0, 0))
	for i := range instants {
		ask(p.began.Add(p.ended.Sub(p.began) * time.Duration(i) / (instants - 1)))
	}
	ask(time.Now().AddDate(1, 0, 0))
	conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	for _, path := range p.polls {
		n, err := count(conn, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name(), err)
		}
		p.counts = append(p.counts, n)
	}
	falling := slices.IsSortedFunc(p.counts, func(a, b int) int { return b - a })
	if !falling || p.counts[0] < h.Params.Messages || p.counts[len(p.counts)-1] != 0 {
		return nil, fmt.Errorf("%s: polls of %d messages and more count %d and less", h.Name(), h.Params.Messages, p.counts[0])
	}
	return h.Clients(func(c *host.Client, _ *load.Parts) error {
		at := c.Choice.IntN(len(p.polls))
		n, err := count(c.Conn, p.polls[at])
		if err == nil && n != p.counts[at] {
			err = host.Wrong("another count than before")
		}
		return err
	}), nil
}

func (s *poll) fill(ctx context.Context) error {
	h, count := s.host, s.host.Params.Messages
	h.Note("filling one inbox with %d messages", count)
	owner := h.Deployment.Recipients[0]
	made, err := owner.Org.Client.Agents.PollToken(ctx, owner.ID)
	if err != nil {
		return err
	}
	address := made.PollURL
	at := strings.Index(address, "/poll/")
	if at < 0 {
		return host.Wrong("a poll_url without a token")
	}
	p := &polled{path: address[at:], began: time.Now()}
	share := func(filler int) (int, func(int) int) {
		return (count - filler + host.Fillers - 1) / host.Fillers, func(int) int { return 0 }
	}
	if err := h.SendAll(ctx, share); err != nil {
		return err
	}
	p.ended = time.Now()
	s.mailbox = p
	return h.FreshTokens(ctx)
}

// count polls and reads the count.
func count(conn *wire.HTTP, path string) (int, error) {
	body, err := host.Get(conn, path, "")
	if err != nil {
		return 0, err
	}
	var parsed struct {
		Count *int `json:"count"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Count == nil {
		return 0, host.Wrong("a poll without a count")
	}
	return *parsed.Count, nil
}
