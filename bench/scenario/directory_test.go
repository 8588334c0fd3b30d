package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/directory"
	"parley/bench/scenario/host"
)

// catalog is the directory of a fake: the latest card of each agent, in the order in which
// agents published.
type catalog struct {
	ids   []string
	cards map[string]*listedCard
}

type listedCard struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Skills      []struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
	} `json:"skills"`
	Extension struct {
		Categories   []string `json:"categories"`
		Languages    []string `json:"languages"`
		Jurisdiction string   `json:"jurisdiction"`
		Pricing      string   `json:"pricing_model"`
		Types        []string `json:"message_types_accepted"`
	} `json:"svc"`
	// weights has the words, those of the name with a greater weight.
	weights map[string]float64
}

func (s *fake) directory(mux *http.ServeMux) {
	s.catalog.cards = map[string]*listedCard{}
	mux.HandleFunc("PUT /agents/{id}/card", func(w http.ResponseWriter, r *http.Request) {
		var c listedCard
		if json.NewDecoder(r.Body).Decode(&c) != nil {
			tell(w, 422, map[string]any{"code": "validation_error"})
			return
		}
		text := c.Name + " " + c.Description
		for _, k := range c.Skills {
			text += " " + k.Name + " " + k.Description + " " + strings.Join(k.Tags, " ")
		}
		c.weights = map[string]float64{}
		for _, word := range directory.WordsOf(strings.ToLower(text)) {
			c.weights[word] = 1
		}
		for _, word := range directory.WordsOf(strings.ToLower(c.Name)) {
			c.weights[word] = 3
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		id := r.PathValue("id")
		if _, again := s.catalog.cards[id]; !again {
			s.catalog.ids = append(s.catalog.ids, id)
			s.catalog.cards[id] = &c
		} else if s.fault != keepsOldCard {
			s.catalog.cards[id] = &c
		}
		tell(w, 200, map[string]any{"id": id})
	})
	mux.HandleFunc("GET /directory/agents", s.search)
	mux.HandleFunc("GET /directory/agents/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		id := r.PathValue("id")
		if s.fault == otherDetail {
			id = s.catalog.ids[(slices.Index(s.catalog.ids, id)+1)%len(s.catalog.ids)]
		}
		tell(w, 200, map[string]any{"id": id, "name": s.catalog.cards[id].Name})
	})
	mux.HandleFunc("GET /directory/agents/stream", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Connection", "close")
		for _, phase := range []string{"fuzzy", "semantic"} {
			text := r.FormValue("q")
			if phase == "semantic" {
				text = r.FormValue("semantic")
			}
			data, _ := json.Marshal(map[string]any{"phase": phase, "results": s.matching(r, text)[:min(20, len(s.matching(r, text)))]})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		if s.fault != endlessSearch {
			_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
		}
	})
}

type listedRow struct {
	ID    string   `json:"id"`
	Score *float64 `json:"score"`
	hits  float64
}

// matching returns the rows of all cards that pass the filters of a request and have a word
// of the text, the best first.
func (s *fake) matching(r *http.Request, text string) (rows []listedRow) {
	rows = []listedRow{}
	asked := directory.WordsOf(strings.ToLower(text))
	exactly := map[string]bool{}
	for _, word := range asked {
		having := 0
		for _, c := range s.catalog.cards {
			if c.weights[word] > 0 {
				having++
			}
		}
		exactly[word] = having >= 3 || s.fault == spellsExactly
	}
	for i, id := range s.catalog.ids {
		c := s.catalog.cards[id]
		if s.fault == hidesCard && i == len(s.catalog.ids)/2 || s.fault != ignoresFilters && !c.passes(r) {
			continue
		}
		row := listedRow{ID: id}
		for _, word := range asked {
			row.hits += c.hits(word, exactly[word])
		}
		if row.hits > 0 || text == "" {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b listedRow) int { return int(100*b.hits) - int(100*a.hits) })
	if text == "" {
		return rows
	}
	for i := range rows {
		score := rows[i].hits / rows[0].hits
		if s.fault == risingScores {
			score = rows[len(rows)-1-i].hits / rows[0].hits
		}
		rows[i].Score = &score
	}
	return rows
}

// hits says how well a card has a word.
func (c *listedCard) hits(word string, exactly bool) float64 {
	best := c.weights[word]
	if best > 0 || exactly {
		return best
	}
	for have, weight := range c.weights {
		if near(have, word) {
			best = max(best, weight/2)
		}
	}
	return best
}

// near reports whether two words differ in one letter, or in the order of two.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || len(a) < 4 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) < len(b) {
		return a[i:] == b[i+1:]
	}
	return i == len(a) || a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

func (c *listedCard) passes(r *http.Request) bool {
	all := r.URL.Query()
	has := func(name string, values ...string) bool {
		return !all.Has(name) || slices.Contains(values, all.Get(name))
	}
	var tags, languages []string
	for _, k := range c.Skills {
		tags = append(tags, k.Tags...)
	}
	for _, l := range c.Extension.Languages {
		short, _, _ := strings.Cut(l, "-")
		languages = append(languages, l, short)
	}
	return has("category", c.Extension.Categories...) && has("tag", tags...) && has("language", languages...) && has("jurisdiction", c.Extension.Jurisdiction) &&
		has("pricing_model", c.Extension.Pricing) && has("message_type", c.Extension.Types...)
}

func (s *fake) search(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.Query()
	text, modes := query.Get("q"), []string{}
	if text != "" {
		modes = append(modes, "text")
	}
	for _, name := range []string{"category", "tag", "language", "jurisdiction", "pricing_model", "message_type"} {
		if query.Has(name) && !slices.Contains(modes, "structured") {
			modes = append(modes, "structured")
		}
	}
	if query.Has("semantic") {
		mode := "semantic"
		if s.fault == otherMode {
			mode = "text"
		}
		modes, text = append(modes, mode), text+" "+text+" "+query.Get("semantic")
	}
	rows := s.matching(r, text)
	if s.fault == guesses && text == query.Get("semantic") || s.fault == guesses && query.Get("q") == "" && query.Has("semantic") && !query.Has("category") {
		slices.SortFunc(rows, func(a, b listedRow) int { return strings.Compare(a.ID, b.ID) })
		for i := range rows {
			rows[i].Score = new(1.0)
		}
	}
	limit, at := 20, 0
	if n, err := strconv.Atoi(query.Get("limit")); err == nil {
		limit = n
	}
	if s.fault != repeatsPages {
		at, _ = strconv.Atoi(query.Get("cursor"))
	}
	total, next := len(rows), any(nil)
	rows = rows[min(at, total):min(at+limit, total)]
	if at+limit < total {
		next = strconv.Itoa(at + limit)
	}
	if s.fault == doublesRows && len(rows) > 1 {
		rows[1] = rows[0]
	}
	if s.fault == countsFew && query.Has("language") && total > 0 {
		total--
	}
	tell(w, 200, map[string]any{"items": rows, "next_cursor": next, "has_more": next != nil, "search_mode": modes, "total": total})
}

// fakeCards is how many cards the directory of a fake has: so many that some words are on
// more than one page.
const fakeCards = 300

// directoryHost returns a host for a fake with a fault.
func directoryHost(t *testing.T, f fault) (*Set, *directory.Scenario) {
	t.Helper()
	_, endpoint := newFake(t, f)
	h, err := NewSet(t.Context(), "fake", endpoint, host.Params{Seed: 3, Payload: 64, Agents: 1, Senders: 1, Cards: fakeCards})
	if err != nil {
		t.Fatal(err)
	}
	return h, h.Scenario(Directory).(*directory.Scenario)
}

// tryDirectory fills the directory of a fake, searches it in every way, publishes some
// cards again, and returns what it finds wrong first.
func tryDirectory(t *testing.T, f fault) error {
	_, d := directoryHost(t, f)
	if f == hidesCard || f == ignoresFilters {
		d.Patience = 200 * time.Millisecond
	}
	if f == keepsOldCard {
		d.FoundWithin = 200 * time.Millisecond
	}
	if err := d.PublishAll(t.Context(), blindMeter{}); err != nil {
		return err
	}
	parts, tally, figures := &load.Parts{}, &directory.SearchTally{}, map[string]float64{}
	s, err := d.Searcher(t.Context(), 0, 1, tally)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	texts, needs := 50, 10
	switch f { // what is judged by many answers
	case sound:
		texts, needs = 10*directory.JudgedLeast, directory.JudgedLeast
	case spellsExactly:
		texts = 10 * directory.JudgedLeast
	case guesses:
		needs = directory.JudgedLeast
	}
	for _, try := range []struct {
		times int
		do    func(*load.Parts) error
	}{
		{texts, s.Text},
		{needs, s.Semantic},
		{20, s.Filtered},
		{20, s.Narrow},
		{20, s.Both},
		{1, s.Browse},
		{2 * directory.JudgedLeast, s.Second},
		{2, s.Detail},
		{2, func(parts *load.Parts) error { return s.Stream(t.Context(), parts) }},
	} {
		for range try.times {
			if err := try.do(parts); err != nil {
				return err
			}
		}
	}
	if err := tally.Judge(figures); err != nil {
		return err
	}
	if figures[directory.FigureMisspelled] == 0 || figures[directory.FigureNeeds] == 0 {
		return fmt.Errorf("figures %v", figures)
	}
	r, err := d.Republisher(t.Context(), 1)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for range 2 * directory.MeantEvery {
		if err := r.Do(t.Context(), 0, parts); err != nil {
			return err
		}
	}
	return nil
}

// TestSoundDirectoryPasses is the control of the test below, and runs the scenario for a
// moment.
func TestSoundDirectoryPasses(t *testing.T) {
	t.Parallel()
	if err := tryDirectory(t, sound); err != nil {
		t.Fatal(err)
	}
	h, _ := directoryHost(t, sound)
	run, err := runOnce(t, h, Directory, load.Plan{Clients: 2, Duration: 300 * time.Millisecond}, around{meter: blindMeter{}, window: &window{}, took: time.Millisecond})
	if err != nil || run.Failures != 0 || run.Operations == 0 {
		t.Fatalf("%v, %d operations, failures %v", err, run.Operations, run.Reasons)
	}
	for _, part := range []string{directory.PartText, directory.PartPut, directory.PartFound, directory.PartMeant, directory.PartTextBeside} {
		if run.Parts[part].Count == 0 {
			t.Errorf("%q was not measured", part)
		}
	}
	if f := run.Figures; f[directory.FigureCards] != fakeCards || f[directory.FigurePublished] <= 0 || f[directory.FigureVectors] <= 0 {
		t.Errorf("figures %v", f)
	}
	if f := run.Figures; f[directory.FigureRestarted] != 1 || f[directory.FigureRestartedAll] <= 1 {
		t.Errorf("figures %v", f)
	}
}

// TestWrongDirectoriesFail: the bench notices each way in which a directory can be wrong.
func TestWrongDirectoriesFail(t *testing.T) {
	t.Parallel()
	for f, says := range map[fault]string{
		hidesCard:      "not all cards were found within",
		ignoresFilters: "not all cards were found within",
		countsFew:      "wrong answer: filters count other cards than have the values",
		spellsExactly:  directory.FigureMisspelled + " is",
		guesses:        directory.FigureNeeds + " is",
		otherMode:      "wrong answer: another search mode than semantic",
		risingScores:   "wrong answer: scores that rise or do not begin with 1",
		repeatsPages:   "wrong answer: a card on two pages",
		otherDetail:    "wrong answer: another card than the one asked for",
		endlessSearch:  "wrong answer: a search stream without its end",
		keepsOldCard:   "wrong answer: a published card is not found",
		doublesRows:    "wrong answer: a row without id, or a card that comes twice",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			if err := tryDirectory(t, f); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		})
	}
}

// TestFilterOracle: what a filter is to count is what a plain comparison counts.
func TestFilterOracle(t *testing.T) {
	_, d := directoryHost(t, sound)
	if err := d.PublishAll(t.Context(), blindMeter{}); err != nil {
		t.Fatal(err)
	}
	some := 0
	for _, f := range d.Index.Filters {
		if f.Count == 0 || f.Query == "" {
			t.Errorf("filter %+v finds nothing", f)
		}
		if f.Count < len(d.Index.Cards) {
			some++
		}
	}
	if len(d.Index.Filters) != directory.FiltersDrawn || some < directory.FiltersDrawn/2 {
		t.Errorf("of %d filters %d exclude a card", len(d.Index.Filters), some)
	}
}
