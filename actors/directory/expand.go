package directory

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/directory/words"
)

// How much a term counts that stands for a word of the query without being it.
const (
	weightStem   = 0.85
	weightPrefix = 0.6
)

// weightSimilar is how much a similar term counts, by its edit distance.
var weightSimilar = [...]float32{0, 0.6, 0.4, 0.25}

const (
	// similarityMin is the least trigram similarity of a similar term.
	similarityMin = 0.3
	// similarBelow is in how many documents a word occurs at most that may be a
	// misspelling.
	similarBelow = 3
)

// variant is a term that stands for a word of the query.
type variant struct {
	term *term
	gain float32 // its weight and inverse document frequency
}

// queryWord is a word of the query with the terms that stand for it. A document counts
// the best of them.
type queryWord struct {
	variants []variant
	entries  int // documents of its terms, an estimate of the work
}

// queryWords returns the distinct words of a text, at most wordsMax. Stop words are left
// out unless there are only those.
func queryWords(text string) []string {
	var all, meaningful []string
	for _, w := range words.Append(nil, text, 4*wordsMax) {
		if slices.Contains(all, w) {
			continue
		}
		all = append(all, w)
		if !words.IsStop(w) {
			meaningful = append(meaningful, w)
		}
	}
	if len(meaningful) > 0 {
		all = meaningful
	}
	return all[:min(len(all), wordsMax)]
}

// expand finds the terms for the words of a query. The last word also stands for the
// terms that begin with it.
func (v *version) expand(words []string) []queryWord {
	all := make([]queryWord, 0, len(words))
	for i, w := range words {
		q := v.expandWord(w, i == len(words)-1, len(words) == 1)
		if len(q.variants) > 0 {
			all = append(all, q)
		}
	}
	// The rarest words first: if the bound of postings cuts, it cuts the words that say
	// least.
	slices.SortStableFunc(all, func(a, b queryWord) int { return cmp.Compare(a.entries, b.entries) })
	return all
}

func (v *version) expandWord(word string, last, only bool) queryWord {
	var q queryWord
	taken := map[*term]bool{}
	found := 0
	add := func(t *term, gain float32) {
		if n := v.documents(t); n > 0 && !taken[t] {
			taken[t] = true
			q.variants = append(q.variants, variant{t, gain})
			q.entries += n
			found += n
		}
	}
	exact := v.vocab.find(word)
	stems := v.stemVariants(word, exact)
	together := 0
	for _, t := range append(stems, exact) {
		if t != nil {
			together += v.documents(t)
		}
	}
	ceiling := v.rarity(together)
	if exact != nil {
		add(exact, ceiling)
	}
	for _, t := range stems {
		add(t, weightStem*ceiling)
	}
	if last && (only || utf8.RuneCountInString(word) > 1) {
		for _, t := range v.prefixVariants(word) {
			gain := v.rarity(v.documents(t))
			if together > 0 {
				gain = min(gain, ceiling)
			}
			add(t, weightPrefix*gain)
		}
	}
	if found < similarBelow {
		for _, s := range v.similar(word) {
			gain := v.rarity(v.documents(s.term))
			if together > 0 {
				gain = min(gain, ceiling)
			}
			add(s.term, weightSimilar[s.distance]*gain)
		}
	}
	return q
}

// rarity is the inverse document frequency of BM25, which is above 0 for every term.
func (v *version) rarity(documents int) float32 {
	n, d := float64(v.count), float64(min(documents, v.count))
	return float32(math.Log(1 + (n-d+0.5)/(d+0.5)))
}

// stemVariants returns other terms with the stem of a word, the most frequent first.
func (v *version) stemVariants(word string, exact *term) []*term {
	terms := v.vocab.sameStem(words.Stem(word))
	return v.frequent(slices.DeleteFunc(terms, func(t *term) bool { return t == exact }))
}

// prefixVariants returns longer terms that begin with a word, the most frequent first.
func (v *version) prefixVariants(word string) []*term {
	var terms []*term
	v.vocab.begins(word, candidatesMax, func(t *term) {
		if len(t.text) > len(word) {
			terms = append(terms, t)
		}
	})
	return v.frequent(terms)
}

// frequent returns the variantsMax terms that most documents have, of those that any
// has.
func (v *version) frequent(terms []*term) []*term {
	type counted struct {
		*term
		n int
	}
	var all []counted
	for _, t := range terms {
		if n := v.documents(t); n > 0 {
			all = append(all, counted{t, n})
		}
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.text, b.text))
	})
	terms = terms[:0]
	for _, c := range all[:min(len(all), variantsMax)] {
		terms = append(terms, c.term)
	}
	return terms
}

// similarTerm is a term that a word may be a misspelling of.
type similarTerm struct {
	term       *term
	similarity float64
	distance   int
	documents  int
}

// similar returns the terms nearest to a word: those that share enough trigrams, and for
// short words, of which one error can change most trigrams, those one edit away. They
// are ordered by edit distance, then similarity.
func (v *version) similar(word string) []similarTerm {
	runes := []rune(word)
	if len(runes) < 3 {
		return nil
	}
	allowed := 1
	if len(runes) > 4 {
		allowed = 2
	}
	if len(runes) > 8 {
		allowed = 3
	}
	var found []similarTerm
	consider := func(t *term, similarity float64) {
		if t.text == word || v.documents(t) == 0 {
			return
		}
		if d := distance(runes, []rune(t.text), allowed); d <= allowed {
			found = append(found, similarTerm{t, similarity, d, v.documents(t)})
		}
	}
	v.vocab.sharing(word, similarityMin, consider)
	if len(runes) <= editedRunesMax {
		v.vocab.oneEdit(runes, func(t *term) {
			if !slices.ContainsFunc(found, func(s similarTerm) bool { return s.term == t }) {
				consider(t, 0)
			}
		})
	}
	slices.SortFunc(found, func(a, b similarTerm) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(b.similarity, a.similarity),
			cmp.Compare(b.documents, a.documents), strings.Compare(a.term.text, b.term.text))
	})
	return found[:min(len(found), variantsMax)]
}

// sharing calls do for each term whose trigrams are similar to a word's: the number of
// trigrams that both have by the number that either has, at least least.
func (v *vocabulary) sharing(word string, least float64, do func(t *term, similarity float64)) {
	grams := trigramsOf(word)
	lists := make([][]uint32, 0, len(grams))
	for _, g := range grams {
		if ids := listed(v, v.trigrams, g); len(ids) > 0 {
			lists = append(lists, ids)
		}
	}
	slices.SortFunc(lists, func(a, b []uint32) int { return cmp.Compare(len(a), len(b)) })
	// Terms are loaded after the lists, so they include every number in them.
	all, visits := v.terms(), 0
	counts, _ := v.counts.Get().(*[]uint8)
	if counts == nil || len(*counts) < len(all) {
		larger := make([]uint8, len(all)*5/4)
		counts = &larger
	}
	shared := *counts
	var touched []uint32
	for _, ids := range lists {
		if visits += len(ids); visits > candidatesMax {
			break
		}
		for _, id := range ids {
			if shared[id]++; shared[id] == 1 {
				touched = append(touched, id)
			}
		}
	}
	for _, id := range touched {
		t, n := all[id], int(shared[id])
		shared[id] = 0
		// A term with n trigrams in common has at least n of its own.
		if float64(n) < least*float64(len(grams)) {
			continue
		}
		if other := len(trigramsOf(t.text)); float64(n) >= least*float64(len(grams)+other-n) {
			do(t, float64(n)/float64(len(grams)+other-n))
		}
	}
	v.counts.Put(counts)
}

const (
	editedRunesMax = 8
	editLetters    = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// oneEdit calls do for each term that a word becomes by one deletion, transposition,
// replacement or insertion of a letter or digit.
func (v *vocabulary) oneEdit(word []rune, do func(t *term)) {
	try := func(parts ...[]rune) {
		if t := v.find(string(slices.Concat(parts...))); t != nil {
			do(t)
		}
	}
	for i := range word {
		try(word[:i], word[i+1:])
		if i+1 < len(word) {
			try(word[:i], []rune{word[i+1], word[i]}, word[i+2:])
		}
		for _, r := range editLetters {
			if r != word[i] {
				try(word[:i], []rune{r}, word[i+1:])
			}
		}
	}
	for i := 0; i <= len(word); i++ {
		for _, r := range editLetters {
			try(word[:i], []rune{r}, word[i:])
		}
	}
}

// distance returns the Damerau-Levenshtein distance of two words (optimal string
// alignment), or more than limit if it is more.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
			least = min(least, next[j])
		}
		if least > limit {
			return limit + 1
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
