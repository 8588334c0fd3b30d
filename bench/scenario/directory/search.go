package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"parley/bench/cards"
	"parley/bench/load"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// directoryPage is how many rows a search shows.
	directoryPage = 20
	// misspelled is the share of searches by words in which a word is misspelled.
	misspelled = 0.2
	// FiltersDrawn is how many different filters the searches use.
	FiltersDrawn = 256
	// stemLetters is how many letters two forms of a word have in common.
	stemLetters = 4
	// rareWord is the number of cards from which a word counts as known.
	rareWord = 3
	// JudgedLeast is the number of answers from which these are judged.
	JudgedLeast = 50
)

// Parts of a run of Directory: searches alone.
const (
	PartText       = "words"
	PartMisspelled = "words, one misspelled"
	PartSemantic   = "meaning"
	PartFilter     = "filters"
	PartBoth       = "words and meaning"
	PartNarrow     = "words and filters"
	PartBrowse     = "all by name"
	PartNext       = "words, second page"
	PartDetail     = "detail"
	PartFirstPhase = "stream: first phase"
	PartLastPhase  = "stream: second phase"
)

// SearchTally counts answers that cannot be judged one by one.
type SearchTally struct {
	misspelled, meant, both, needs share
}

// share counts which part of many answers is as wanted.
type share struct{ part, of atomic.Int64 }

func (s *share) add(wanted bool) {
	s.of.Add(1)
	if wanted {
		s.part.Add(1)
	}
}

// Judge sets the shares, and returns an error if they are those of a directory that does
// not work.
func (t *SearchTally) Judge(figures map[string]float64) (err error) {
	for _, one := range []struct {
		figure string
		of     *share
		least  float64
	}{{FigureMisspelled, &t.misspelled, 0.8}, {FigureNeeds, &t.needs, 0.5}, {FigureMeant, &t.meant, 0.8}, {FigureBoth, &t.both, 0.7}} {
		n := one.of.of.Load()
		if n == 0 {
			continue
		}
		figures[one.figure] = float64(one.of.part.Load()) / float64(n)
		if n >= JudgedLeast && figures[one.figure] < one.least {
			err = errors.Join(err, fmt.Errorf("%s is %.2f and should be %.2f at least", one.figure, figures[one.figure], one.least))
		}
	}
	return err
}

// searching is the client of Directory.
type searching struct {
	conn   *wire.HTTP
	host   *host.Host
	index  *cardIndex
	random *rand.Rand
	client int
	tally  *SearchTally
}

func (d *Scenario) searches(tally *SearchTally) load.Dial {
	run := d.host.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) { return d.Searcher(ctx, worker, run, tally) }
}

func (d *Scenario) Searcher(ctx context.Context, client int, run uint16, tally *SearchTally) (*searching, error) {
	conn, err := d.connect(ctx, client)
	if err != nil {
		return nil, err
	}
	return &searching{conn: conn, host: d.host, index: d.Index, random: d.host.Choice(run, client), client: client, tally: tally}, nil
}

// Close implements load.Client.
func (s *searching) Close() error { return s.conn.Close() }

// Do implements load.Client.
func (s *searching) Do(ctx context.Context, _ int, parts *load.Parts) error {
	switch n := s.random.IntN(100); {
	case n < 35:
		return s.Text(parts)
	case n < 50:
		return s.Semantic(parts)
	case n < 65:
		return s.Filtered(parts)
	case n < 75:
		return s.Narrow(parts)
	case n < 82:
		return s.Both(parts)
	case n < 87:
		return s.Browse(parts)
	case n < 92:
		return s.Second(parts)
	case n < 96:
		return s.Detail(parts)
	default:
		return s.Stream(ctx, parts)
	}
}

// target draws a card to look for.
func (s *searching) target() (int, *cards.Card) {
	i := s.index.fresh + s.random.IntN(len(s.index.Cards)-s.index.fresh)
	return i, &s.index.Cards[i]
}

// ask searches and records how long the answer took.
func (s *searching) ask(parts *load.Parts, part, query string) (*listing, error) {
	l, took, err := s.timed(query)
	if err == nil {
		parts.Note(part, took)
	}
	return l, err
}

func (s *searching) timed(query string) (*listing, time.Duration, error) {
	began := time.Now()
	body, err := host.Get(s.conn, "/directory/agents?"+query, "")
	took := time.Since(began)
	if err != nil {
		return nil, 0, err
	}
	l, err := readRows(body)
	return l, took, err
}

// Text searches by words: half of the time by those of a name, by which its card is to be
// found, half of the time by a few that many cards have, or by a misspelled name of a
// maker.
func (s *searching) Text(parts *load.Parts) error {
	i, c := s.target()
	wrongly, named := s.random.Float64() < misspelled, s.random.IntN(2) == 0
	var query string
	switch {
	case named:
		query = cards.Names(s.random, c, wrongly)
	case wrongly:
		query = cards.Maker(s.random, c)
	default:
		query = cards.Few(s.random, c)
	}
	l, took, err := s.timed("q=" + url.QueryEscape(query))
	if err != nil {
		return err
	}
	parts.Note(PartText, took)
	if wrongly {
		parts.Note(PartMisspelled, took)
	}
	if err := s.sound(l, "text"); err != nil {
		return err
	}
	switch {
	case wrongly:
		s.tally.misspelled.add(named && s.has(l, i) || !named && slices.ContainsFunc(l.ids, func(id host.UUID) bool { return s.isOf(id, c.Maker) }))
	case named && !s.has(l, i):
		return host.Wrong("a card is not found by its name")
	case !named && s.index.knows(query) && (len(l.ids) == 0 || !s.mentions(l.ids[0], query)):
		return host.Wrong("words find a card that has none of them")
	}
	return nil
}

func (s *searching) Semantic(parts *load.Parts) error {
	need, category := cards.Need(s.random)
	l, err := s.ask(parts, PartSemantic, "semantic="+url.QueryEscape(need))
	if err != nil {
		return err
	}
	// A category of few cards has fewer near to any one need.
	for _, id := range l.ids[:min(len(l.ids), 1+s.index.sizes[category]/4)] {
		at, known := s.index.place[id]
		s.tally.needs.add(known && slices.Contains(s.index.Cards[at].Categories, category))
	}
	s.tally.meant.add(len(l.ids) > 0)
	return s.sound(l, "semantic")
}

func (s *searching) Filtered(parts *load.Parts) error {
	f := &s.index.Filters[s.random.IntN(len(s.index.Filters))]
	l, err := s.ask(parts, PartFilter, f.Query)
	if err != nil {
		return err
	}
	if l.total != f.Count && (s.index.others == 0 || l.total < f.Count) {
		return host.Wrong("filters count other cards than have the values")
	}
	return errors.Join(s.sound(l, "structured"), s.pass(l, f))
}

func (s *searching) Narrow(parts *load.Parts) error {
	i, c := s.target()
	f := filter{category: c.Categories[0], language: c.Languages[0]}
	l, err := s.ask(parts, PartNarrow, f.encode()+"&q="+url.QueryEscape(cards.Names(s.random, c, false)))
	if err != nil {
		return err
	}
	if !s.has(l, i) {
		return host.Wrong("a card is not found by its name and its category")
	}
	return errors.Join(s.sound(l, "text", "structured"), s.pass(l, &f))
}

func (s *searching) Both(parts *load.Parts) error {
	i, c := s.target()
	l, err := s.ask(parts, PartBoth, "q="+url.QueryEscape(cards.Names(s.random, c, false))+"&semantic="+url.QueryEscape(c.Skills[0].Description))
	if err != nil {
		return err
	}
	s.tally.both.add(s.has(l, i))
	return s.sound(l, "text", "semantic")
}

// Browse lists cards by name. Only their number is checked.
func (s *searching) Browse(parts *load.Parts) error {
	l, err := s.ask(parts, PartBrowse, "sort=name")
	if err == nil && (l.total < len(s.index.Cards) || len(l.ids) != min(directoryPage, l.total)) {
		err = host.Wrong("a list that lacks cards")
	}
	return err
}

// Second reads the second page of a search by words; the first is not measured.
func (s *searching) Second(parts *load.Parts) error {
	_, c := s.target()
	query := "q=" + url.QueryEscape(cards.Few(s.random, c))
	first, _, err := s.timed(query)
	if err != nil || first.cursor == "" {
		return err
	}
	next, err := s.ask(parts, PartNext, query+"&cursor="+url.QueryEscape(first.cursor))
	if err != nil {
		return err
	}
	for _, id := range next.ids {
		if slices.Contains(first.ids, id) {
			return host.Wrong("a card on two pages")
		}
	}
	if len(next.ids) == 0 {
		return host.Wrong("a second page without cards")
	}
	return nil
}

func (s *searching) Detail(parts *load.Parts) error {
	i, c := s.target()
	began := time.Now()
	body, err := host.Get(s.conn, "/directory/agents/"+s.index.agents[i].ID.String(), "")
	if err != nil {
		return err
	}
	parts.Note(PartDetail, time.Since(began))
	var shown cardRow
	if json.Unmarshal(body, &shown) != nil || shown.Name != c.Name {
		return host.Wrong("another card than the one asked for")
	}
	return nil
}

// Stream searches in two phases, over a connection of its own. What it records begins
// with the connection.
func (s *searching) Stream(ctx context.Context, parts *load.Parts) error {
	i, c := s.target()
	path := "/directory/agents/stream?q=" + url.QueryEscape(cards.Names(s.random, c, false)) + "&semantic=" + url.QueryEscape(c.Skills[0].Description)
	began := time.Now()
	stream, err := wire.DialStream(ctx, s.host.AddressOf(s.client), s.host.Endpoint().Address, path, "")
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for _, phase := range [...]struct{ name, part string }{{"fuzzy", PartFirstPhase}, {"semantic", PartLastPhase}} {
		event, err := stream.Next()
		if err != nil {
			return err
		}
		parts.Note(phase.part, time.Since(began))
		l, err := readRows(event.Data)
		if err != nil {
			return err
		}
		if l.phase != phase.name || phase.name == "fuzzy" && !s.has(l, i) {
			return host.Wrong("a phase of a search that does not find its card")
		}
	}
	if event, err := stream.Next(); err != nil || string(event.Data) != "[DONE]" {
		return host.Wrong("a search stream without its end")
	}
	if _, err := stream.Next(); !errors.Is(err, io.EOF) {
		return host.Wrong("a search stream that does not end")
	}
	return nil
}

// has reports whether a list has the card at a place.
func (s *searching) has(l *listing, place int) bool {
	return slices.Contains(l.ids, host.UUID(s.index.agents[place].ID))
}

// sound checks the mode, the scores and the length of an answer.
func (s *searching) sound(l *listing, modes ...string) error {
	if !slices.Equal(l.modes, modes) {
		return host.Wrong("another search mode than " + strings.Join(modes, ", "))
	}
	for i, score := range l.scores {
		if i == 0 && score != 1 || i > 0 && score > l.scores[i-1] {
			return host.Wrong("scores that rise or do not begin with 1")
		}
	}
	if l.total >= 0 && len(l.ids) < min(directoryPage, l.total) && !l.more {
		return host.Wrong("fewer rows than were found")
	}
	return nil
}

// knows reports whether none of the words is so rare that a directory takes it for a
// misspelled one.
func (x *cardIndex) knows(query string) bool {
	return !slices.ContainsFunc(WordsOf(query), func(word string) bool { return x.words[word] < rareWord })
}

// mentions reports whether a card has the beginning of one of the words.
func (s *searching) mentions(id host.UUID, query string) bool {
	at, known := s.index.place[id]
	if !known {
		return s.index.others > 0
	}
	text := textOf(&s.index.Cards[at])
	return slices.ContainsFunc(WordsOf(query), func(word string) bool { return strings.Contains(text, word[:min(len(word), stemLetters)]) })
}

// textOf returns all text of a card, in lower case.
func textOf(c *cards.Card) string {
	text := c.Name + " " + c.Description
	for _, k := range c.Skills {
		text += " " + k.Name + " " + k.Description + " " + strings.Join(k.Tags, " ")
	}
	return strings.ToLower(text)
}

func WordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// isOf reports whether a card's name has the name of a maker.
func (s *searching) isOf(id host.UUID, maker string) bool {
	at, known := s.index.place[id]
	return known && s.index.Cards[at].Maker == maker
}

// pass checks that all cards of an answer pass a filter.
func (s *searching) pass(l *listing, f *filter) error {
	for _, id := range l.ids {
		if at, known := s.index.place[id]; known && !f.passes(&s.index.Cards[at]) {
			return host.Wrong("a card that does not pass the filter")
		}
	}
	return nil
}

// listing is a page of the directory.
type listing struct {
	ids    []host.UUID
	scores []float64
	modes  []string
	total  int // -1 if it is not known
	cursor string
	more   bool
	phase  string // of a stream
}

// search reads one page of the directory.
func search(conn *wire.HTTP, query string) (*listing, error) {
	body, err := host.Get(conn, "/directory/agents?"+query, "")
	if err != nil {
		return nil, err
	}
	return readRows(body)
}

// cardRow is a row of a page, or one agent.
type cardRow struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Score *float64 `json:"score"`
}

// cardRows is a page, or one phase of a stream.
type cardRows struct {
	Items   []cardRow `json:"items"`
	Results []cardRow `json:"results"`
	Phase   string    `json:"phase"`
	Modes   []string  `json:"search_mode"`
	Total   *int      `json:"total"`
	Cursor  string    `json:"next_cursor"`
	More    bool      `json:"has_more"`
}

// readRows reads the rows of an object, and what else a page has.
func readRows(body []byte) (*listing, error) {
	var j cardRows
	if json.Unmarshal(body, &j) != nil || j.Items == nil && j.Results == nil {
		return nil, host.Wrong("not a page of the directory")
	}
	l := &listing{phase: j.Phase, modes: j.Modes, total: -1, cursor: j.Cursor, more: j.More}
	if j.Total != nil {
		l.total = *j.Total
	}
	for _, one := range append(j.Items, j.Results...) {
		id, known := host.ParseUUID([]byte(one.ID))
		if !known || slices.Contains(l.ids, id) {
			return nil, host.Wrong("a row without id, or a card that comes twice")
		}
		l.ids = append(l.ids, id)
		if one.Score != nil {
			l.scores = append(l.scores, *one.Score)
		}
	}
	return l, nil
}
