package http

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/http/rest"

	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
)

// getProfile is what anyone may see of a public group.
// // spec: Directory and discovery (all public, no auth)
func (s groupDirectory) getProfile(c *rest.Call, in *api.GetProfile) (api.GroupProfile, error) {
	// The caller is nobody: it owns no seat.
	g, err := readGroupAs(s.core, c, in.ID, accessExists, seeGroup)
	if err != nil {
		return api.GroupProfile{}, err
	}
	handle, err := s.groupHandle(c.Context(), g.owner, g.Name)
	return api.GroupProfile{
		ID: g.ID, Name: g.Name, Handle: handle, OrgID: g.owner, Description: g.Description, EnrollmentPolicy: g.EnrollmentPolicy,
		VoteDurationHours: g.VoteDurationHours, MemberCount: g.MemberCount, CreatedAt: g.CreatedAt,
	}, err
}

// findGroups is a page of the public groups that a query finds, or of all of them
// without one. Where the work of one request ends before the groups do, the page
// may be short or empty, and its cursor goes on at the group where the work ended.
// // spec: Directory and discovery (all public, no auth)
func (s groupDirectory) findGroups(c *rest.Call, in *api.FindGroups) (api.Page[api.GroupProfile], error) {
	page := api.Page[api.GroupProfile]{Items: []api.GroupProfile{}}
	words := ""
	if in.Query != nil {
		words = strings.TrimSpace(*in.Query)
	}
	list := "directory groups " + words
	position, err := s.lists.Position(list, in.Cursor, groupWalkShort, groupWalkLong)
	if err != nil {
		return page, err
	}
	leave, err := s.queries.enter(c.Account(), c.Draining())
	if err != nil {
		return page, err
	}
	defer leave()
	l := newWalkStep(groupWalkOf(position), newSearch(words), in.Limit, s.searchWork)
	err = s.Node.Groups.Public(c.Context(), l.walk.beyond, func(groups iter.Seq2[*record.PublicGroup, query.GroupOwner]) {
		l.scan(groups, s.Domain)
		if !s.queriesLinger {
			leave() // before the disk is waited for, and the socket
		}
	})
	for _, g := range l.page() {
		page.Items = append(page.Items, g.profile)
	}
	if next, more := l.next(); more {
		page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, next.bytes()))
	}
	return page, err
}

func profileOf(g *record.PublicGroup, handle string) api.GroupProfile {
	return api.GroupProfile{
		ID: g.GroupID(), Name: g.GetName(), Handle: handle, OrgID: g.Owner(), Description: orNull(g.GetDescription()),
		EnrollmentPolicy: g.GetPolicy(), VoteDurationHours: int(g.GetVoteHours()), MemberCount: int(g.GetMembers()),
		CreatedAt: atMillis(g.GetCreatedMs()),
	}
}

// search is a query, as words.
type search struct {
	words []queryWord
	// fields are the words of the group that is looked at, kept for their memory.
	fields [3][]string
	// work is what scores took beyond what the length of the text says.
	work int
}

// taken is what scores took since it was called last.
func (q *search) taken() int {
	work := q.work
	q.work = 0
	return work
}

type queryWord struct {
	text     string
	letters  uint64
	trigrams []trigram
}

// searchWordsMax bounds how many words of a query are looked for.
const searchWordsMax = 16

func newSearch(query string) *search {
	q := &search{}
	for _, w := range appendWords(nil, query) {
		if len(q.words) < searchWordsMax {
			q.words = append(q.words, queryWord{w, lettersOf(w), trigramsOf(nil, w)})
		}
	}
	return q
}

// What a word counts for by where it is found.
const (
	weightName        = 8
	weightHandle      = 4
	weightDescription = 2
)

// score is how well a group fits: more than 0 if every word of the query is
// found. A query without a word fits every group alike.
func (q *search) score(name, handle, description string) float64 {
	if len(q.words) == 0 {
		return 1
	}
	for i, text := range [...]string{name, handle, description} {
		if !ascii(text) {
			q.work += searchFold * len(text)
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
	// Of names that fit, the one that says nothing besides fits best.
	return total/float64(len(q.words)) + 1/float64(1+len(q.fields[0]))
}

// How much of a word's weight a likeness of it brings.
const (
	fitWhole  = 1.0
	fitBegins = 0.7
	fitWithin = 0.4
	// fitLike is for a misspelling, times how like it is.
	fitLike = 0.5
	// likeLeast is how like a misspelling has to be, mistakesMax how many letters
	// it may have that are wrong, or more or fewer. withinLeast is how long what is
	// found inside of a word has to be.
	likeLeast   = 0.4
	mistakesMax = 3
	withinLeast = 3
)

// in is how well the word is found among others, 0 for not at all. It adds to work
// what it takes to compare words that differ.
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

// trigramsOf appends the trigrams of a word, its edges included.
func trigramsOf(all []trigram, word string) []trigram {
	last := trigram{' ', ' ', ' '}
	for _, r := range word {
		last = trigram{last[1], last[2], r}
		all = append(all, last)
	}
	return append(all, trigram{last[1], last[2], ' '})
}

// lettersOf are the letters of a word, in whatever order: most words are told
// from a misspelling by them.
func lettersOf(word string) (letters uint64) {
	for _, r := range word {
		letters |= 1 << (r % 64)
	}
	return letters
}

// like is the share of trigrams that two words have in common.
func (w *queryWord) like(word string, work *int) float64 {
	n := len(word) - len(w.text)
	if n > mistakesMax || n < -mistakesMax || bits.OnesCount64(w.letters^lettersOf(word)) > mistakesMax {
		return 0
	}
	var kept [32]trigram
	theirs := trigramsOf(kept[:0], word)
	*work += searchLike + len(w.trigrams)*len(theirs)
	common := 0
	for _, t := range theirs {
		if slices.Contains(w.trigrams, t) {
			common++
		}
	}
	common = min(common, len(w.trigrams))
	return float64(common) / float64(len(w.trigrams)+len(theirs)-common)
}

// appendWords appends the words of a text, in one case.
func appendWords(words []string, text string) []string {
	text = folded(text)
	start := -1 // of the word that goes on
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

// inWord reports whether words are made of a character, of a text in one case.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// folded is a text in one case.
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

// fold is the first of the characters that differ from r in case only.
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
