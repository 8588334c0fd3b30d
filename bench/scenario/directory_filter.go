package scenario

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"parley/bench/cards"
)

// filter is a combination of filters.
type filter struct {
	category, language, jurisdiction, pricing, tag, kind string
	// query is the filter in a query string, count how many cards pass it.
	query string
	count int
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
	for range filtersDrawn {
		c := &x.cards[random.IntN(len(x.cards))]
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
		f.query = f.encode()
		for i := range x.cards {
			if f.passes(&x.cards[i]) {
				f.count++
			}
		}
		x.filters = append(x.filters, f)
	}
}
