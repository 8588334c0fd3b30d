package directory

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"parley/bench/cards"
	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// publishRate is how many cards a second the second part of Directory publishes.
	publishRate = 100
	// republishers is how many connections publish them.
	republishers = 16
	// MeantEvery is the number of publications of which one is looked for by its meaning.
	MeantEvery = 5
	// foundWithin bounds the wait for a published card, after which it counts as lost.
	foundWithin = 10 * time.Second
	// foundPause is the pause between two looks for it.
	foundPause = time.Millisecond
	// besideSearches is the interval between searches by words during publications.
	besideSearches = 20 * time.Millisecond
)

// Parts of a run of Directory: while publishRate cards a second are published.
const (
	PartPut        = "100 published a second: 200 of a card"
	PartFound      = "100 published a second: found by its words after the 200"
	PartMeant      = "100 published a second: found by its meaning after the 200"
	PartTextBeside = "100 published a second: words"
)

// publishAgain publishes cards again at a fixed rate, each with a new word, and looks for
// each until it is found.
func (d *Scenario) publishAgain(ctx context.Context, plan load.Plan, run *result.Run) error {
	plan.Clients, plan.Rate = republishers, publishRate
	under, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	searches, tally := load.NewHistogram(), &SearchTally{}
	var besideErr error
	beside.Go(func() { besideErr = d.searchBeside(under, searches, tally) })
	m, err := load.Run(ctx, plan, d.Republisher, nil)
	stop()
	beside.Wait()
	if m == nil {
		return errors.Join(err, besideErr)
	}
	for name, part := range m.Parts {
		run.Parts[name] = part.Latency()
	}
	if searches.Count() > 0 {
		run.Parts[PartTextBeside] = searches.Latency()
	}
	for reason, n := range m.Reasons {
		run.Failures += n
		host.AddReason(run, "publishing: "+reason, n)
	}
	return errors.Join(err, besideErr)
}

// searchBeside searches by words now and then.
func (d *Scenario) searchBeside(ctx context.Context, into *load.Histogram, tally *SearchTally) error {
	s, err := d.Searcher(ctx, republishers, d.host.NextRun(), tally)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	ticks := time.NewTicker(besideSearches)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		i, c := s.target()
		l, took, err := s.timed("q=" + url.QueryEscape(cards.Names(s.random, c, false)))
		if err == nil && !s.has(l, i) {
			err = host.Wrong("a card is not found by its name while others are published")
		}
		if err != nil {
			return err
		}
		into.Record(took)
	}
}

// republishing publishes cards again and looks for them.
type republishing struct {
	*Scenario
	conn     *host.Caller
	searches *wire.HTTP
}

func (d *Scenario) Republisher(ctx context.Context, worker int) (load.Client, error) {
	c, err := d.host.Caller(ctx)
	if err != nil {
		return nil, err
	}
	searches, err := d.connect(ctx, worker)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &republishing{d, c, searches}, nil
}

// Close implements load.Client.
func (r *republishing) Close() error { return errors.Join(r.conn.Close(), r.searches.Close()) }

// Do implements load.Client.
func (r *republishing) Do(ctx context.Context, _ int, parts *load.Parts) error {
	n := int(r.Index.republished.Add(1))
	at := n % r.Index.fresh
	card, of := r.Index.Cards[at], r.Index.agents[at]
	word := fmt.Sprintf("zq%dx%s", n, of.ID.String()[24:])
	card.Name += " " + word
	card.Categories = append(card.Categories[:len(card.Categories):len(card.Categories)], word)
	began := time.Now()
	if err := r.Put(r.conn, of, &card); err != nil {
		return err
	}
	answered := time.Now()
	parts.Note(PartPut, answered.Sub(began))
	if err := r.find(ctx, of, "limit=3&q="+word); err != nil {
		return err
	}
	parts.Note(PartFound, time.Since(answered))
	if n%MeantEvery != 0 {
		return nil
	}
	if err := r.find(ctx, of, "category="+word+"&semantic="+meaningOf(&card)); err != nil {
		return err
	}
	parts.Note(PartMeant, time.Since(answered))
	return nil
}

// find searches until a card is found.
func (r *republishing) find(ctx context.Context, of *host.Agent, query string) error {
	found, err := host.Poll(ctx, r.FoundWithin, foundPause, func() (bool, error) {
		l, err := search(r.searches, query)
		return err == nil && slices.Contains(l.ids, host.UUID(of.ID)), err
	})
	if err == nil && !found {
		err = host.Wrong("a published card is not found")
	}
	return err
}
