package cards

import (
	_ "embed" // for the lists
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

//go:embed domains.txt
var domainsText string

//go:embed general.txt
var generalText string

// domain is what cards of one trade are made of.
type domain struct {
	categories, actions, things, clients []string
}

// lists are the words of all cards, each list with the most frequent first.
type lists struct {
	domains                                                          []domain
	roles, adjectives, systems, cities, languages, jurisdictions     []string
	domainRanks, thingRanks, generalRanks, languageRanks, makerRanks ranks
}

// words reads the lists once.
var words = sync.OnceValue(func() *lists {
	l := &lists{}
	for line := range strings.Lines(domainsText) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "=":
			l.domains = append(l.domains, domain{categories: strings.Split(rest, ", ")})
		case "do:":
			l.domains[len(l.domains)-1].actions = strings.Fields(rest)
		case "on:":
			l.domains[len(l.domains)-1].things = strings.Split(rest, ", ")
		case "for:":
			l.domains[len(l.domains)-1].clients = strings.Split(rest, ", ")
		}
	}
	for line := range strings.Lines(generalText) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for name, list := range map[string]*[]string{
			"roles": &l.roles, "adjectives": &l.adjectives, "systems": &l.systems, "cities": &l.cities, "languages": &l.languages, "jurisdictions": &l.jurisdictions,
		} {
			if kind == name {
				*list = strings.Split(rest, ", ")
			}
		}
	}
	l.domainRanks, l.thingRanks = newRanks(len(l.domains), 0.7), newRanks(30, 0.6)
	l.generalRanks, l.languageRanks, l.makerRanks = newRanks(100, 0.8), newRanks(len(l.languages), 1.3), newRanks(makers, 0.8)
	return l
})

// ranks draws the places of a list as Zipf's law has it: the place k, counted from 1,
// with a weight of 1/k^s.
type ranks []float64

func newRanks(n int, s float64) ranks {
	r, sum := make(ranks, n), 0.0
	for k := range r {
		sum += math.Pow(1/float64(k+1), s)
		r[k] = sum
	}
	return r
}

// below draws a place below n, which is at most the length of the ranks.
func (r ranks) below(random *rand.Rand, n int) int {
	at := random.Float64() * r[n-1]
	low, high := 0, n-1
	for low < high {
		if mid := (low + high) / 2; r[mid] < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// of draws a member of a list.
func (r ranks) of(random *rand.Rand, list []string) string {
	return list[r.below(random, min(len(list), len(r)))]
}

// Syllables of the names of makers.
var (
	firstSyllables  = strings.Fields("al bel cor dax ela fen gri hal ibe jun kal lor mar nex oru pel qui ran sol tav ulm ver wex xan yar zen bra cle dri fro glo kra plu sto tri vlo shi tho qua nor")
	middleSyllables = strings.Fields("ba de fi go lu ma ne ni po ra re ri sa se ta ti vo xi za ke mi lo do na ve")
	lastSyllables   = strings.Fields("bit con dor fex gan lix mon nis ptor quil ria sys tek via wick xor yon zia bro dyn")
)

// makers is how many makers of agents there are.
var makers = len(firstSyllables) * len(middleSyllables) * len(lastSyllables)

// maker returns the name of a maker by its rank. Neighbours have nothing in common.
func maker(rank int) string {
	n := rank * 7919 % makers // a prime that divides no length, so that all ranks differ
	first, n := firstSyllables[n%len(firstSyllables)], n/len(firstSyllables)
	middle, n := middleSyllables[n%len(middleSyllables)], n/len(middleSyllables)
	return first + middle + lastSyllables[n]
}
