package search

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Query is what a search looks for, as words. It is used by one goroutine.
type Query struct {
	words []queryWord
	// fields are the words of the current group. The memory is used again for the next.
	fields [3][]string
	// work is what scores have cost beyond the cost per byte of text.
	work int
}

// taken returns what scores have cost since the last call.
func (q *Query) taken() int {
	work := q.work
	q.work = 0
	return work
}

type queryWord struct {
	text     string
	letters  uint64
	trigrams []trigram
}

// queryWordsMax is how many words of a query count; later ones are ignored.
const queryWordsMax = 16

// NewQuery divides the text of a query into words.
func NewQuery(query string) *Query {
	q := &Query{}
	for _, w := range appendWords(nil, query) {
		if len(q.words) < queryWordsMax {
			q.words = append(q.words, queryWord{w, lettersOf(w), trigramsOf(nil, w)})
		}
	}
	return q
}

// The weight of a word, by the field that contains it.
const (
	weightName        = 8
	weightHandle      = 4
	weightDescription = 2
)

// score returns how well a group matches: more than 0 if it contains every word of
// the query. A query without words matches all groups equally.
func (q *Query) score(name, handle, description string) float64 {
	if len(q.words) == 0 {
		return 1
	}
	for i, text := range [...]string{name, handle, description} {
		if !ascii(text) {
			q.work += foldWork * len(text)
		}
		q.fields[i] = appendWords(q.fields[i][:0], text)
	}
	total := 0.0
	for i := range q.words {
		best := 0.0
		for f, weight := range [...]float64{weightName, weightHandle, weightDescription} {
			best = max(best, weight*q.words[i].in(q.fields[f], &q.work))
		}
		if best == 0 {
			return 0
		}
		total += best
	}
	// Among matching names, a shorter one ranks higher.
	return total/float64(len(q.words)) + 1/float64(1+len(q.fields[0]))
}

// The share of a word's weight that each kind of match brings.
const (
	fitWhole  = 1.0
	fitBegins = 0.7
	fitWithin = 0.4
	// fitLike is for a misspelling. It is multiplied by the similarity.
	fitLike = 0.5
	// likeLeast is the least similarity of a misspelling, mistakesMax the largest
	// number of wrong, missing or additional letters. withinLeast is the least
	// length of a word that is looked for inside of other words.
	likeLeast   = 0.4
	mistakesMax = 3
	withinLeast = 3
)

// in returns how well the best of the words matches, 0 if none does. It adds to work
// the cost of comparing words that differ.
func (w *queryWord) in(words []string, work *int) (best float64) {
	for _, word := range words {
		switch {
		case word == w.text:
			return fitWhole
		case strings.HasPrefix(word, w.text):
			best = max(best, fitBegins)
		case len(w.text) >= withinLeast && strings.Contains(word, w.text):
			best = max(best, fitWithin)
		case best < fitLike:
			if like := w.like(word, work); like >= likeLeast {
				best = max(best, fitLike*like)
			}
		}
	}
	return best
}

// trigram is three characters of a word.
type trigram [3]rune

// trigramsOf appends the trigrams of a word. Spaces mark its beginning and end.
func trigramsOf(all []trigram, word string) []trigram {
	last := trigram{' ', ' ', ' '}
	for _, r := range word {
		last = trigram{last[1], last[2], r}
		all = append(all, last)
	}
	return append(all, trigram{last[1], last[2], ' '})
}

// lettersOf returns the set of letters of a word. It excludes most words that are no
// misspelling without comparing trigrams.
func lettersOf(word string) (letters uint64) {
	for _, r := range word {
		letters |= 1 << (r % 64)
	}
	return letters
}

// like returns the share of trigrams that two words have in common, from 0 to 1.
func (w *queryWord) like(word string, work *int) float64 {
	n := len(word) - len(w.text)
	if n > mistakesMax || n < -mistakesMax || bits.OnesCount64(w.letters^lettersOf(word)) > mistakesMax {
		return 0
	}
	var kept [32]trigram
	theirs := trigramsOf(kept[:0], word)
	*work += compareWork + len(w.trigrams)*len(theirs)
	common := 0
	for _, t := range theirs {
		if slices.Contains(w.trigrams, t) {
			common++
		}
	}
	common = min(common, len(w.trigrams))
	return float64(common) / float64(len(w.trigrams)+len(theirs)-common)
}

// appendWords appends the words of a text, in lower case.
func appendWords(words []string, text string) []string {
	text = folded(text)
	start := -1 // of the current word
	for i, r := range text {
		switch within := inWord(r); {
		case within && start < 0:
			start = i
		case !within && start >= 0:
			words = append(words, text[start:i])
			start = -1
		}
	}
	if start >= 0 {
		words = append(words, text[start:])
	}
	return words
}

// inWord reports whether a character of a folded text belongs to a word.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// folded returns a text in lower case, so that texts that differ in case are equal.
func folded(text string) string {
	if ascii(text) {
		return strings.ToLower(text)
	}
	return strings.ReplaceAll(strings.Map(fold, text), "ß", "ss")
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fold returns the same character for all that differ from r in case only.
func fold(r rune) rune {
	if r < unicode.MaxASCII {
		return unicode.ToLower(r)
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}
