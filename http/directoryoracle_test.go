package http

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/actors/org"
)

// plainCard is a card as the oracle sees it: lists of what it was published with.
type plainCard struct {
	id, name, text          string
	categories, languages   []string
	tags, types             []string
	jurisdiction, pricing   string
	org                     string
	verified                bool
	place                   int // in the order of publishing
	byMeaning, byOtherMeans bool
}

// oracleFilter is a part of a query, and what it means for one card.
type oracleFilter struct {
	kind, query string
	passes      func(*plainCard) bool
}

func someOf(random *rand.Rand, pool []string, most int) (some []string) {
	for _, i := range random.Perm(len(pool))[:random.IntN(most+1)] {
		some = append(some, pool[i])
	}
	return some
}

func hasFold(all []string, value string) bool {
	return slices.ContainsFunc(all, func(one string) bool { return strings.EqualFold(one, value) })
}

// speaks reports whether a card has a language or a region of it.
func (c *plainCard) speaks(language string) bool {
	return slices.ContainsFunc(c.languages, func(l string) bool {
		return strings.EqualFold(l, language) || strings.HasPrefix(strings.ToLower(l), strings.ToLower(language)+"-")
	})
}

func (c *plainCard) says(word string) bool { return slices.Contains(strings.Fields(c.text), word) }

// oracleWords are in many cards each, and none is the beginning or a form of another.
var oracleWords = []string{"quartz", "falcon", "meadow", "lantern", "oxide"}

// oracleCards publishes cards of three organizations of different tiers with random
// values.
func oracleCards(h *cardHarness, random *rand.Rand, n int) (all []*plainCard) {
	h.t.Helper()
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.second.owner, org.GrantTier{Tier: 0}); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.node.Orgs.SetTerms(context.Background(), h.nobody.owner, org.GrantTier{Tier: 3}); err != nil {
		h.t.Fatal(err)
	}
	jobs := []string{"Checks invoices and payments.", "Forecasts rain and storms.", "Translates letters into French.", "Plans trips and books hotels."}
	for i := range n {
		p := []*tenant{h.first, h.second, h.nobody}[i%3]
		c := &plainCard{
			categories: someOf(random, []string{"Finance", "office", "weather", "Law & order"}, 3), languages: someOf(random, []string{"en", "en-GB", "de", "DE-at", "fr"}, 3),
			tags: someOf(random, []string{"Audit", "text", "two words", "x"}, 3), types: someOf(random, []string{"a.b.c", "a.b.d"}, 2),
			jurisdiction: []string{"", "DE", "fr", "us-CA"}[random.IntN(4)], pricing: []string{"", "free", "per_request", "subscription", "negotiated"}[random.IntN(5)],
			org: p.owner.String(), verified: i%3 != 1, place: i,
		}
		words := someOf(random, oracleWords, 2)
		c.name = strings.ToUpper(oracleWords[random.IntN(len(oracleWords))][:1]) + fmt.Sprintf("%c%02d", 'a'+random.IntN(26), i)
		c.text = strings.Join(append(words, strings.ToLower(c.name)), " ")
		svc := card{"categories": c.categories, "languages": c.languages, "message_types_accepted": c.types}
		if c.jurisdiction != "" {
			svc["jurisdiction"] = c.jurisdiction
		}
		if c.pricing != "" {
			svc["pricing_model"] = c.pricing
		}
		body := card{"name": c.name, "description": jobs[random.IntN(len(jobs))] + " " + strings.Join(words, " "), "svc": svc}
		if len(c.tags) > 0 {
			body["skills"] = []any{skill("s", c.tags[:1]...), skill("t", c.tags...)}
		}
		c.id = p.agent(fmt.Sprint("oracle", i))
		h.ids[c.id] = c.id
		p.publish(c.id, body)
		all = append(all, c)
	}
	return all
}

func oracleFilters(h *cardHarness) []oracleFilter {
	filters := []oracleFilter{
		{"verified", "verified=true", func(c *plainCard) bool { return c.verified }},
		{"verified", "verified=false", func(c *plainCard) bool { return !c.verified }},
		{"category", "category=+finance+&category=WEATHER", func(c *plainCard) bool { return hasFold(c.categories, "finance") || hasFold(c.categories, "weather") }},
		{"category", "category=finan", func(*plainCard) bool { return false }},
		{"tag", "tag=TEXT&tag=audit+", func(c *plainCard) bool { return hasFold(c.tags, "text") && hasFold(c.tags, "audit") }},
		{"language", "language=de&language=fr", func(c *plainCard) bool { return c.speaks("de") || c.speaks("fr") }},
		{"message_type", "message_type=A.b.c", func(*plainCard) bool { return false }},
		{"q", "q=quartz+falcon", func(c *plainCard) bool { return c.says("quartz") || c.says("falcon") }},
		{"q", "query=meadow", func(c *plainCard) bool { return c.says("meadow") }},
		{"semantic", "semantic=paying+bills", func(c *plainCard) bool { return c.byMeaning }},
		{"semantic", "semantic=sunny+weather+tomorrow", func(c *plainCard) bool { return c.byOtherMeans }},
	}
	for _, value := range []string{"office", "Law & order"} {
		filters = append(filters, oracleFilter{"category", "category=" + url.QueryEscape(value), func(c *plainCard) bool { return hasFold(c.categories, value) }})
	}
	for _, value := range []string{"x", "two words"} {
		filters = append(filters, oracleFilter{"tag", "tag=" + url.QueryEscape(value), func(c *plainCard) bool { return hasFold(c.tags, value) }})
	}
	for _, value := range []string{"en", "EN-gb", "de-AT", "e"} {
		filters = append(filters, oracleFilter{"language", "language=" + value, func(c *plainCard) bool { return c.speaks(value) }})
	}
	for _, value := range []string{"de", "FR", "US-ca", "us"} {
		filters = append(filters, oracleFilter{"jurisdiction", "jurisdiction=" + value, func(c *plainCard) bool { return strings.EqualFold(c.jurisdiction, value) }})
	}
	for _, value := range []string{"a.b.c", "a.b.d"} {
		filters = append(filters, oracleFilter{"message_type", "message_type=" + value, func(c *plainCard) bool { return slices.Contains(c.types, value) }})
	}
	for _, value := range []string{"free", "per_request", "subscription", "negotiated"} {
		filters = append(filters, oracleFilter{"pricing_model", "pricing_model=" + value, func(c *plainCard) bool { return c.pricing == value }})
	}
	for _, p := range []*tenant{h.first, h.second} {
		filters = append(filters, oracleFilter{"org_id", "org_id=" + p.owner.String(), func(c *plainCard) bool { return c.org == p.owner.String() }})
	}
	return filters
}

// modesOf returns the search mode of a combination.
func modesOf(parts []oracleFilter) (modes []any) {
	kinds := map[string]bool{}
	for _, p := range parts {
		switch p.kind {
		case "q", "semantic":
			kinds[p.kind] = true
		default:
			kinds["filter"] = true
		}
	}
	for _, m := range []struct{ kind, mode string }{{"q", "text"}, {"filter", "structured"}, {"semantic", "semantic"}} {
		if kinds[m.kind] {
			modes = append(modes, m.mode)
		}
	}
	return modes
}

// checkCombination compares what a combination finds with a loop over all cards. Words
// and meaning together find what either finds. It returns how many cards that are.
func (h *cardHarness) checkCombination(all []*plainCard, sort string, parts ...oracleFilter) int {
	h.t.Helper()
	var queries, want []string
	for _, p := range parts {
		queries = append(queries, p.query)
	}
	passing := slices.DeleteFunc(slices.Clone(all), func(c *plainCard) bool {
		ranked, found := false, false
		for _, p := range parts {
			switch passes := p.passes(c); p.kind {
			case "q", "semantic":
				ranked, found = true, found || passes
			default:
				if !passes {
					return true
				}
			}
		}
		return ranked && !found
	})
	slices.SortFunc(passing, func(a, b *plainCard) int {
		if sort == "name" {
			return cmp.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
		}
		return b.place - a.place
	})
	for _, c := range passing {
		want = append(want, c.id)
	}
	query := strings.Join(queries, "&")
	if sort != "" {
		query += "&sort=" + sort
	}
	page := h.public().ask("GET", "/directory/agents?limit=100&"+query, "").want(200)
	got := strings.Fields(h.names(page.at("items")))
	modes := modesOf(parts)
	if sort == "" && slices.ContainsFunc(modes, func(m any) bool { return m != "structured" }) { // ranked
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("%q finds %d cards, want %d:\n%q\n%q", query, len(got), len(want), got, want)
	}
	if page.at("total") != float64(len(want)) || fmt.Sprint(page.at("search_mode")) != fmt.Sprint(modes) {
		h.t.Errorf("%q: total %v of %d, modes %v, want %v", query, page.at("total"), len(want), page.at("search_mode"), modes)
	}
	return len(want)
}

// TestDirectoryAgainstOracle tries every filter alone, every pair of different filters, and
// random larger combinations, in every order.
func TestDirectoryAgainstOracle(t *testing.T) {
	h := newCardHarness(t)
	for _, own := range []struct {
		p  *tenant
		id string
	}{{h.first, h.ann}, {h.first, h.art}, {h.second, h.bob}} {
		own.p.ask("DELETE", "/agents/"+own.id+"/card", "").want(204)
	}
	random := rand.New(rand.NewPCG(17, 1))
	all := oracleCards(h, random, 48)
	h.settle(len(all))
	for range 1000 { // until the tiers are known
		if h.public().ask("GET", "/directory/agents?verified=false&limit=1", "").at("total") == 16.0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for query, mark := range map[string]func(*plainCard) *bool{
		"semantic=paying+bills":           func(c *plainCard) *bool { return &c.byMeaning },
		"semantic=sunny+weather+tomorrow": func(c *plainCard) *bool { return &c.byOtherMeans },
	} {
		found := strings.Fields(h.find("limit=100&" + query))
		if len(found) == 0 || len(found) == len(all) {
			t.Fatalf("%q finds %d of %d cards", query, len(found), len(all))
		}
		for _, c := range all {
			*mark(c) = slices.Contains(found, c.id)
		}
	}
	filters, finding := oracleFilters(h), 0
	for i, a := range filters {
		for _, sort := range []string{"", "name", "created_at"} {
			h.checkCombination(all, sort, a)
		}
		for j, b := range filters[:i] {
			if a.kind != b.kind {
				finding += min(1, h.checkCombination(all, []string{"", "name", "created_at"}[(i+j)%3], a, b))
			}
		}
	}
	if finding < 200 {
		t.Errorf("only %d pairs of filters find a card", finding)
	}
	for range 300 {
		kinds, parts := map[string]bool{}, []oracleFilter{}
		for range 3 + random.IntN(3) {
			if f := filters[random.IntN(len(filters))]; !kinds[f.kind] {
				kinds[f.kind], parts = true, append(parts, f)
			}
		}
		h.checkCombination(all, []string{"", "name", "created_at"}[random.IntN(3)], parts...)
	}
}

// TestDirectoryOracleNotices is the control: the comparison fails for a filter that is
// not the one that was asked for.
func TestDirectoryOracleNotices(t *testing.T) {
	h := newCardHarness(t)
	all := []*plainCard{{id: h.ann, name: "Invoice checker"}, {id: h.art, name: "Translator", place: 1}, {id: h.bob, name: "zebra weather", place: 2}}
	h.ids = map[string]string{h.ann: h.ann, h.art: h.art, h.bob: h.bob}
	lies := &quietT{TB: t}
	wrong := *h.cardsWith(lies)
	wrong.checkCombination(all, "", oracleFilter{"tag", "tag=text", func(c *plainCard) bool { return c.id == h.ann }})
	if lies.errors != 2 { // the cards, and their number
		t.Errorf("%d errors", lies.errors)
	}
	h.checkCombination(all, "name", oracleFilter{"tag", "tag=text", func(c *plainCard) bool { return c.id != h.bob }})
}

// quietT counts errors instead of failing the test.
type quietT struct {
	testing.TB
	errors int
}

func (q *quietT) Errorf(string, ...any) { q.errors++ }
func (q *quietT) Helper()               {}

// cardsWith returns the harness with another way to report errors.
func (h *cardHarness) cardsWith(t testing.TB) *cardHarness {
	group, inner := *h.groupHarness, *h.harness
	inner.t = t
	group.harness = &inner
	return &cardHarness{&group, h.ids}
}
