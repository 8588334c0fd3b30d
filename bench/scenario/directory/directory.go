// Package directory is the scenario that fills a directory of cards and searches it.
package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"parley/bench/cards"
	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// publishers is how many connections publish at once.
	publishers = 32
	// cardPatience bounds the wait for cards, and for their vectors, that are not found.
	cardPatience = 5 * time.Minute
	// freshMost is how many cards are published again, one after the other. They are more
	// than can be under way at once.
	freshMost = 1000
	// shedPause is the pause before a request is repeated that a busy server has refused,
	// shedMost how often it is repeated.
	shedPause = 100 * time.Millisecond
	shedMost  = 600
	// cardPause is the pause between two looks for them.
	cardPause = 20 * time.Millisecond
)

// Names of the figures of a run of Directory. docs/benchmarks.md says what they mean.
const (
	FigureCards        = "cards"
	FigurePublished    = "filled_per_second"
	FigureVectors      = "vectors_after_ms"
	FigureCardMemory   = "resident_bytes_per_card"
	FigureMisspelled   = "misspelled_found"
	FigureNeeds        = "meaning_in_category"
	FigureMeant        = "meaning_found"
	FigureBoth         = "words_and_meaning_found"
	FigureRestarted    = "restart_ms"
	FigureRestartedAll = "restart_all_cards_ms"
)

// cardIndex is what Directory has published.
type cardIndex struct {
	Cards  []cards.Card
	agents []*host.Agent
	// place finds a card by its agent's id.
	place map[host.UUID]int
	// fresh is how many cards, the first ones, are published again in each run. No search
	// looks for them.
	fresh int
	// others is how many cards were there before.
	others  int
	Filters []filter
	// sizes is how many cards each category has.
	sizes map[string]int
	// words is how many cards have each word, up to rareWord.
	words   map[string]byte
	figures map[string]float64
	// last is a category that only the card that was published last has.
	last string
	// republished counts the cards that were published again.
	republished atomic.Int64
}

// Scenario is Directory.
type Scenario struct {
	host *host.Host
	// Index is nil until the cards are published.
	Index *cardIndex
	// FoundWithin bounds the wait for a published card, patience that for all cards.
	FoundWithin, Patience time.Duration
}

func New(h *host.Host) *Scenario {
	return &Scenario{host: h, FoundWithin: foundWithin, Patience: cardPatience}
}

// Run implements Scenario. It searches the directory as planned, then publishes cards at a fixed
// rate and measures when they are found. At the end it restarts a server that the bench has
// started, and waits until all cards are found again. The first run fills the directory. The
// window is that of the searches.
func (d *Scenario) Run(ctx context.Context, r *host.Round) error {
	h, run := d.host, r.Result
	if d.Index == nil {
		if err := d.PublishAll(ctx, r.Bench.Meter()); err != nil {
			return fmt.Errorf("%s: no directory: %w", h.Name(), err)
		}
	}
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	tally := &SearchTally{}
	m, err := load.Run(ctx, r.Plan, d.searches(tally), r.Bench.Begin(ctx))
	if m == nil {
		return err
	}
	m.Fill(run)
	run.Figures = maps.Clone(d.Index.figures)
	if err == nil {
		err = tally.Judge(run.Figures)
	}
	if err == nil {
		err = d.publishAgain(ctx, r.Plan, run)
	}
	if err != nil {
		return err
	}
	took, err := r.Bench.Restart(ctx)
	if err != nil || took == 0 {
		return err
	}
	answered := time.Now()
	err = d.await(ctx, "", func(l *listing) bool { return l.total >= d.Index.others+len(d.Index.Cards) })
	run.Figures[FigureRestarted] = took.Seconds() * 1e3
	run.Figures[FigureRestartedAll] = (took + time.Since(answered)).Seconds() * 1e3
	return err
}

// PublishAll creates the agents and publishes their cards.
func (d *Scenario) PublishAll(ctx context.Context, meter host.Meter) error {
	h, count := d.host, d.host.Params.Cards
	h.Note("publishing %d cards", count)
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	x := newCardIndex(h.Params.Seed, count)
	conn, err := d.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	before, err := search(conn, "limit=1")
	if err != nil {
		return err
	}
	if before.total < 0 {
		return errors.New("the directory does not say how many cards it has")
	}
	x.others = before.total
	meter.Settle(ctx)
	resident, began := meter.Resident(), time.Now()
	if err := d.enrollAll(ctx, x, 0, count-1); err != nil {
		return err
	}
	if err := d.enrollAll(ctx, x, count-1, count); err != nil {
		return err
	}
	ended := time.Now()
	x.figures = map[string]float64{FigureCards: float64(count), FigurePublished: float64(count) / ended.Sub(began).Seconds()}
	h.Note("%d cards published in %.1f s, waiting for their vectors", count, ended.Sub(began).Seconds())
	if err := d.await(ctx, "", func(l *listing) bool { return l.total == x.others+count }); err != nil {
		return err
	}
	meant := "category=" + x.last + "&semantic=" + meaningOf(&x.Cards[count-1])
	if err := d.await(ctx, meant, func(l *listing) bool { return len(l.ids) == 1 }); err != nil {
		return err
	}
	x.figures[FigureVectors] = time.Since(ended).Seconds() * 1e3
	meter.Settle(ctx)
	if now := meter.Resident(); resident > 0 && now > resident {
		x.figures[FigureCardMemory] = float64(now-resident) / float64(count)
	}
	for i, a := range x.agents {
		x.place[host.UUID(a.ID)] = i
	}
	d.Index = x
	return nil
}

// newCardIndex makes cards, and counts what searches look for.
func newCardIndex(seed uint64, count int) *cardIndex {
	x := &cardIndex{
		Cards: cards.Make(seed, count), agents: make([]*host.Agent, count), place: make(map[host.UUID]int, count), sizes: map[string]int{},
		words: map[string]byte{}, fresh: max(2*republishers, min(freshMost, count/10)), last: fmt.Sprintf("last-%x", rand.Uint64()),
	}
	x.Cards[count-1].Categories = append(x.Cards[count-1].Categories, x.last)
	for i := range x.Cards {
		for _, category := range x.Cards[i].Categories {
			x.sizes[category]++
		}
	}
	x.countWords()
	x.drawFilters(rand.New(rand.NewPCG(seed, 1)))
	return x
}

// meaningOf returns what a card says first, within the bound of a query, for a query
// string.
func meaningOf(c *cards.Card) string {
	text := c.Name + " " + c.Description
	return url.QueryEscape(text[:min(len(text), 300)])
}

// countWords counts the cards that have each word. No card is counted twice in a row, so a
// word that only one card has is rare however often that card has it.
func (x *cardIndex) countWords() {
	latest := map[string]int{}
	for i := range x.Cards {
		for _, word := range WordsOf(textOf(&x.Cards[i])) {
			if before, known := latest[word]; x.words[word] < rareWord && (!known || before != i) {
				x.words[word]++
				latest[word] = i
			}
		}
	}
}

// await searches until the answer is as wanted.
func (d *Scenario) await(ctx context.Context, query string, enough func(*listing) bool) error {
	conn, err := d.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	inTime, err := host.Poll(ctx, d.Patience, cardPause, func() (bool, error) {
		l, err := search(conn, query)
		if isShed(err) {
			return false, nil
		}
		return err == nil && enough(l), err
	})
	if err == nil && !inTime {
		err = fmt.Errorf("not all cards were found within %v", d.Patience)
	}
	return err
}

// enrollAll creates agents and publishes their cards, from one place up to another.
func (d *Scenario) enrollAll(ctx context.Context, x *cardIndex, from, upTo int) error {
	return d.host.OnConnections(ctx, publishers, upTo-from, func(c *host.Caller, i int) error {
		if err := d.enroll(c, x, from+i); err != nil {
			return fmt.Errorf("card %d: %w", from+i, err)
		}
		return nil
	})
}

// isShed reports whether a busy server refused a request.
func isShed(err error) bool {
	var refused load.Refused
	return errors.As(err, &refused) && strings.HasPrefix(refused.Reason, "status 503")
}

// connect connects one of the clients without a token. A server lets each address search once at
// a time.
func (d *Scenario) connect(ctx context.Context, client int) (*wire.HTTP, error) {
	return wire.DialHTTPFrom(ctx, d.host.AddressOf(client), d.host.Endpoint().Address)
}

// enroll creates an agent and publishes its card.
func (d *Scenario) enroll(c *host.Caller, x *cardIndex, i int) error {
	deployment := d.host.Deployment
	of := deployment.ReceivingOrg
	if i%10 >= 7 {
		of = deployment.SendingOrg
	}
	var made *host.Agent
	err := repeated(func() (err error) {
		made, err = deployment.CreateAgent(c.Conn, of, fmt.Sprintf("card-%d", i))
		return err
	})
	if err != nil {
		return err
	}
	x.agents[i] = made
	return repeated(func() error { return d.Put(c, made, &x.Cards[i]) })
}

// repeated makes a request, again while the server refuses it because it is busy.
func repeated(request func() error) (err error) {
	for range shedMost {
		if err = request(); !isShed(err) {
			break
		}
		time.Sleep(shedPause)
	}
	return err
}

// Put publishes a card.
func (d *Scenario) Put(c *host.Caller, of *host.Agent, card *cards.Card) error {
	body, err := cardBody(d.host.Deployment.Brand, card)
	if err != nil {
		return err
	}
	_, err = host.Call(c.Conn, 200, "PUT", "/agents/"+of.ID.String()+"/card", of.Org.Token, nil, body)
	return err
}

// cardBody returns a card as it is published.
func cardBody(brand string, c *cards.Card) ([]byte, error) {
	skills := make([]map[string]any, len(c.Skills))
	for i, s := range c.Skills {
		skills[i] = map[string]any{"id": s.ID, "name": s.Name, "description": s.Description, "tags": s.Tags}
	}
	extension := map[string]any{"categories": c.Categories, "languages": c.Languages, "message_types_accepted": c.MessageTypes}
	if c.Jurisdiction != "" {
		extension["jurisdiction"] = c.Jurisdiction
	}
	if c.PricingModel != "" {
		extension["pricing_model"] = c.PricingModel
	}
	if len(c.MessageTypes) == 0 {
		delete(extension, "message_types_accepted")
	}
	return json.Marshal(map[string]any{
		"name": c.Name, "description": c.Description, "version": "1.0.0", "is_public": true, "skills": skills, brand: extension,
	})
}

// filter is a combination of filters.
type filter struct {
	category, language, jurisdiction, pricing, tag, kind string
	// Query is the filter in a query string, count how many cards pass it.
	Query string
	Count int
}

func (f *filter) encode() string {
	values := url.Values{}
	for name, value := range map[string]string{
		"category": f.category, "language": f.language, "jurisdiction": f.jurisdiction, "pricing_model": f.pricing, "tag": f.tag, "message_type": f.kind,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values.Encode()
}

func (f *filter) passes(c *cards.Card) bool {
	same := func(want, have string) bool { return want == "" || strings.EqualFold(want, have) }
	return same(f.jurisdiction, c.Jurisdiction) && same(f.pricing, c.PricingModel) &&
		(f.category == "" || slices.Contains(c.Categories, f.category)) &&
		(f.kind == "" || slices.Contains(c.MessageTypes, f.kind)) &&
		(f.language == "" || slices.ContainsFunc(c.Languages, func(l string) bool {
			return same(f.language, l) || strings.HasPrefix(strings.ToLower(l), strings.ToLower(f.language)+"-")
		})) &&
		(f.tag == "" || slices.ContainsFunc(c.Skills, func(k cards.Skill) bool { return slices.Contains(k.Tags, f.tag) }))
}

// drawFilters draws filters of one to three values of random cards, and counts the cards
// that pass each.
func (x *cardIndex) drawFilters(random *rand.Rand) {
	for range FiltersDrawn {
		c := &x.Cards[random.IntN(len(x.Cards))]
		var f filter
		for range 1 + random.IntN(3) {
			switch random.IntN(6) {
			case 0, 1:
				f.category = c.Categories[0]
			case 2:
				f.language = c.Languages[0]
			case 3:
				f.jurisdiction = c.Jurisdiction
			case 4:
				f.pricing = c.PricingModel
			default:
				f.tag = c.Skills[0].Tags[0]
			}
		}
		if random.IntN(4) == 0 && len(c.MessageTypes) > 0 {
			f.kind = c.MessageTypes[0]
		}
		if f == (filter{}) {
			f.category = c.Categories[0]
		}
		f.Query = f.encode()
		for i := range x.Cards {
			if f.passes(&x.Cards[i]) {
				f.Count++
			}
		}
		x.Filters = append(x.Filters, f)
	}
}
