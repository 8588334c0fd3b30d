package cards

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Names returns the words of a card's name, in any order, with one of them misspelled if
// wrong is set. The card is to be found by them.
func Names(random *rand.Rand, c *Card, wrong bool) string {
	all := strings.Fields(strings.ToLower(c.Name))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if wrong {
		spoil(random, all)
	}
	return strings.Join(all, " ")
}

// Maker returns the name of a card's maker, misspelled. A card of this maker is to be among
// the first, though names of other makers may be as near.
func Maker(random *rand.Rand, c *Card) string {
	all := []string{strings.ToLower(c.Maker)}
	spoil(random, all)
	return all[0]
}

// Few returns a few words of a card's domain, as people type them. Many cards have them.
func Few(random *rand.Rand, c *Card) string {
	d := draft{lists: words(), random: random, domain: c.domain, other: c.domain}
	var all []string
	for _, part := range []string{d.thing(), d.action(), d.thing()}[:1+random.IntN(3)] {
		if more := strings.Fields(strings.ToLower(part)); len(all)+len(more) <= 4 {
			all = append(all, more...)
		}
	}
	return strings.Join(all, " ")
}

// Need returns a sentence that asks for what agents of a category do.
func Need(random *rand.Rand) (text, category string) {
	d := draft{lists: words(), random: random}
	d.domain = d.domainRanks.below(random, len(d.domains))
	d.other = d.domain
	category = d.domains[d.domain].categories[0]
	switch random.IntN(4) {
	case 0:
		text = fmt.Sprintf("I need someone to %s my %s", d.action(), withS(d.thing()))
	case 1:
		text = fmt.Sprintf("who can %s %s and the %s for %s", d.action(), article(d.thing()), d.thing(), d.client())
	case 2:
		text = fmt.Sprintf("help with %s, %s and %s", withS(d.thing()), withS(d.thing()), withS(d.thing()))
	default:
		text = fmt.Sprintf("please %s the %s of our %s", d.action(), d.thing(), d.client())
	}
	return text, category
}

// spoil changes, drops, doubles or swaps a letter of one of the words that are long enough
// for people to recognize them all the same.
func spoil(random *rand.Rand, all []string) {
	var long []int
	for i, word := range all {
		if len(word) >= 5 {
			long = append(long, i)
		}
	}
	if len(long) == 0 {
		return
	}
	at := long[random.IntN(len(long))]
	b := []byte(all[at])
	i := 1 + random.IntN(len(b)-2)
	switch random.IntN(4) {
	case 0:
		b[i] = "etaoinsr"[random.IntN(8)]
	case 1:
		b = append(b[:i], b[i+1:]...)
	case 2:
		b = append(b[:i+1], b[i:]...)
	default:
		b[i], b[i+1] = b[i+1], b[i]
	}
	all[at] = string(b)
}
