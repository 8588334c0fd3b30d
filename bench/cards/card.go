package cards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Card is one generated card.
type Card struct {
	Name, Description string
	// Maker is the word of the name that is an invented one.
	Maker        string
	Skills       []Skill
	Categories   []string
	Languages    []string
	Jurisdiction string
	PricingModel string
	MessageTypes []string
	// domain is the place of its domain.
	domain int
}

// Skill is a skill of a card.
type Skill struct {
	ID, Name, Description string
	Tags                  []string
}

// Shares of what a card has.
const (
	secondDomain     = 0.12 // another domain's things as well
	hasJurisdiction  = 0.7
	hasPricing       = 0.8
	hasMessageTypes  = 0.35
	hasSecondCluster = 0.4
)

// MessageTypes are the types that cards accept, the most frequent first.
func MessageTypes() (all []string) {
	for _, d := range words().domains[:12] {
		all = append(all, "acme.v1."+strings.ReplaceAll(d.categories[0], "-", "_"))
	}
	return all
}

// PricingModels are the pricing models of cards, the most frequent first.
func PricingModels() []string { return []string{"free", "per_request", "subscription", "negotiated"} }

// Make returns n cards, all with different names.
func Make(seed uint64, n int) []Card {
	all, names := make([]Card, n), make(map[string]struct{}, n)
	for i := range all {
		for attempt := uint64(0); ; attempt++ {
			all[i] = one(rand.New(rand.NewPCG(seed, uint64(i)<<16|attempt)))
			if _, taken := names[all[i].Name]; !taken {
				break
			}
		}
		names[all[i].Name] = struct{}{}
	}
	return all
}

// draft draws the parts of one card.
type draft struct {
	*lists
	random *rand.Rand
	domain int
	other  int
	maker  string
}

func one(random *rand.Rand) Card {
	d := draft{lists: words(), random: random}
	d.domain = d.domainRanks.below(random, len(d.domains))
	d.other = d.domain
	if d.chance(secondDomain) {
		d.other = d.domainRanks.below(random, len(d.domains))
	}
	d.maker = title(maker(d.makerRanks.below(random, makers)))
	c := Card{Name: d.name(), Maker: d.maker, domain: d.domain}
	c.Description = d.description()
	for i := range 1 + d.count(4) {
		c.Skills = append(c.Skills, d.skill(i))
	}
	own := d.domains[d.domain].categories
	c.Categories = []string{own[0]}
	if len(own) > 1 && d.chance(hasSecondCluster) {
		c.Categories = append(c.Categories, own[1])
	}
	if more := d.domains[d.other].categories[0]; !slices.Contains(c.Categories, more) {
		c.Categories = append(c.Categories, more)
	}
	for range 1 + d.count(3) {
		if l := d.languageRanks.of(random, d.languages); !slices.Contains(c.Languages, l) {
			c.Languages = append(c.Languages, l)
		}
	}
	if d.chance(hasJurisdiction) {
		c.Jurisdiction = d.generalRanks.of(random, d.jurisdictions)
	}
	if d.chance(hasPricing) {
		c.PricingModel = d.generalRanks.of(random, PricingModels())
	}
	if d.chance(hasMessageTypes) {
		c.MessageTypes = []string{d.generalRanks.of(random, MessageTypes())}
	}
	return c
}

func (d *draft) chance(p float64) bool { return d.random.Float64() < p }

// count draws a number up to most; each is half as likely as the one before.
func (d *draft) count(most int) int {
	n := 0
	for n < most && d.chance(0.5) {
		n++
	}
	return n
}

// source returns the domain that the next thing comes from.
func (d *draft) source() *domain {
	if d.other != d.domain && d.chance(0.3) {
		return &d.domains[d.other]
	}
	return &d.domains[d.domain]
}

func (d *draft) thing() string  { return d.thingRanks.of(d.random, d.source().things) }
func (d *draft) action() string { return d.thingRanks.of(d.random, d.source().actions) }
func (d *draft) client() string { return d.thingRanks.of(d.random, d.source().clients) }
func (d *draft) general(list []string) string {
	return d.generalRanks.of(d.random, list)
}

func (d *draft) name() string {
	thing, role := title(d.thing()), title(d.general(d.roles))
	switch d.random.IntN(6) {
	case 0:
		return fmt.Sprintf("%s %s by %s", thing, role, d.maker)
	case 1:
		return fmt.Sprintf("%s %s for %s", d.maker, role, d.client())
	case 2:
		return fmt.Sprintf("%s %s %s %s", d.maker, d.general(d.cities), thing, role)
	case 3:
		return fmt.Sprintf("%s %s %s", d.maker, title(d.general(d.adjectives)), thing)
	}
	return fmt.Sprintf("%s %s %s", d.maker, thing, role)
}

func (d *draft) description() string {
	sentences := []string{fmt.Sprintf("%s %s and %s for %s.", title(withS(d.action())), withS(d.thing()), withS(d.thing()), d.client())}
	for range 1 + d.count(4) {
		var s string
		switch d.random.IntN(6) {
		case 0:
			s = fmt.Sprintf("Send it %s and it %s the %s.", article(d.general(d.adjectives)+" "+d.thing()), withS(d.action()), d.thing())
		case 1:
			s = fmt.Sprintf("Works with %s and %s.", d.general(d.systems), d.general(d.systems))
		case 2:
			s = fmt.Sprintf("It also %s %s, %s and %s %s.", withS(d.action()), withS(d.thing()), withS(d.thing()), d.general(d.adjectives), withS(d.thing()))
		case 3:
			s = fmt.Sprintf("Made for %s in %s and %s.", d.client(), d.general(d.cities), d.general(d.cities))
		case 4:
			s = fmt.Sprintf("You can %s %s without waiting for %s.", d.action(), article(d.thing()), article(d.general(d.roles)))
		default:
			s = fmt.Sprintf("Typical questions are about the %s, %s or how to %s it.", d.thing(), article(d.general(d.adjectives)+" "+d.thing()), d.action())
		}
		sentences = append(sentences, s)
	}
	return strings.Join(sentences, " ")
}

func (d *draft) skill(i int) Skill {
	action, thing := d.action(), d.thing()
	s := Skill{
		ID: fmt.Sprintf("%s-%d", action, i), Name: fmt.Sprintf("%s %s", title(action), article(thing)),
		Description: fmt.Sprintf("%s %s and %s the %s for %s.", title(withS(action)), article(d.general(d.adjectives)+" "+thing), withS(d.action()), d.thing(), d.client()),
		Tags:        []string{thing},
	}
	for range d.count(4) {
		tag := d.thing()
		if d.chance(0.3) {
			tag = d.domains[d.domain].categories[0]
		}
		if !slices.Contains(s.Tags, tag) {
			s.Tags = append(s.Tags, tag)
		}
	}
	return s
}

// title returns a phrase with the first letter of each word in upper case.
func title(phrase string) string {
	all := strings.Fields(phrase)
	for i, word := range all {
		all[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(all, " ")
}

// article returns a phrase with its indefinite article.
func article(phrase string) string {
	if strings.ContainsAny(phrase[:1], "aeiou") {
		return "an " + phrase
	}
	return "a " + phrase
}

// withS returns the third person of a verb, or the plural of a thing, for nearly all of them.
func withS(verb string) string {
	switch {
	case strings.HasSuffix(verb, "s"), strings.HasSuffix(verb, "sh"), strings.HasSuffix(verb, "ch"), strings.HasSuffix(verb, "x"), strings.HasSuffix(verb, "o"):
		return verb + "es"
	case strings.HasSuffix(verb, "y") && !strings.ContainsAny(verb[len(verb)-2:len(verb)-1], "aeiou"):
		return verb[:len(verb)-1] + "ies"
	}
	return verb + "s"
}
