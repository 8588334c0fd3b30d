package http

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode"

	"parley"
	"parley/actors"
	"parley/http/api"
)

// getProfile is what anyone may see of a public group.
// // spec: Directory and discovery (all public, no auth)
func (s *Service) getProfile(c *Call, in *api.GetProfile) (api.GroupProfile, error) {
	// The caller is nobody: it owns no seat.
	g, err := look(s, c, in.ID, passerby, seeGroup)
	if err != nil {
		return api.GroupProfile{}, err
	}
	handle, err := s.groupHandle(c.Context(), g.owner, g.Name)
	return api.GroupProfile{
		ID: g.ID, Name: g.Name, Handle: handle, OrgID: g.owner, Description: g.Description, EnrollmentPolicy: g.EnrollmentPolicy,
		VoteDurationHours: g.VoteDurationHours, MemberCount: g.MemberCount, CreatedAt: g.CreatedAt,
	}, err
}

// searchWork bounds what one search looks at: bytes of text, each as often as the
// query has words, and searchStep for each group. That is some ten milliseconds.
// Groups beyond it, the youngest, are not found.
const (
	searchWork = 8 << 20
	searchStep = 1 << 10
)

// queryWait is how long a query waits for others to end before it is refused.
const queryWait = time.Second

// mayQuery waits until few other queries run: anybody may ask them, and each keeps
// a processor busy.
func (s *Service) mayQuery(c *Call) (done func(), err error) {
	late := time.NewTimer(queryWait)
	defer late.Stop()
	select {
	case s.queries <- struct{}{}:
		return func() { <-s.queries }, nil
	case <-late.C:
	case <-c.Draining():
	}
	return nil, parley.ErrOverloaded
}

// findGroups is a page of the public groups that a query finds, best first; of
// all of them without one, oldest first.
// // spec: Directory and discovery (all public, no auth)
func (s *Service) findGroups(c *Call, in *api.FindGroups) (api.Page[api.GroupProfile], error) {
	page := api.Page[api.GroupProfile]{Items: []api.GroupProfile{}}
	query := ""
	if in.Query != nil {
		query = strings.TrimSpace(*in.Query)
	}
	list := "directory groups " + query
	position, err := s.position(list, in.Cursor, 24)
	if err != nil {
		return page, err
	}
	beyond := placeFound(position)
	done, err := s.mayQuery(c)
	if err != nil {
		return page, err
	}
	defer done()
	sought, found := newSearch(query), shortlist{most: in.Limit + 1}
	work := s.searchWork
	err = s.Node.PublicGroups(c.Context(), func(g *actors.PublicGroup) bool {
		if everything := len(sought.words) == 0; everything { // in the order of the rows
			if compareFound(foundAt{1, g.GroupID()}, beyond) <= 0 && position != nil {
				return true
			}
			if len(found.best) == found.most {
				return false
			}
		}
		if work -= searchStep + len(sought.words)*(len(g.GetName())+len(g.GetDescription())); work < 0 {
			return false
		}
		o, unknown := s.Node.Org(c.Context(), g.Owner())
		if unknown != nil {
			return true
		}
		handle := parley.Handle{Name: g.GetName(), Slug: o.GetSlug(), Domain: s.Domain, Group: true}.String()
		at := foundAt{score: sought.score(g.GetName(), handle, g.GetDescription()), id: g.GroupID()}
		if at.score > 0 && (position == nil || compareFound(at, beyond) > 0) {
			found.add(foundGroup{at, profileOf(g, handle)})
		}
		return true
	})
	for i, g := range found.best {
		if i == in.Limit {
			page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, found.best[i-1].bytes()))
			break
		}
		page.Items = append(page.Items, g.profile)
	}
	return page, err
}

func profileOf(g *actors.PublicGroup, handle string) api.GroupProfile {
	return api.GroupProfile{
		ID: g.GroupID(), Name: g.GetName(), Handle: handle, OrgID: g.Owner(), Description: orNull(g.GetDescription()),
		EnrollmentPolicy: g.GetPolicy(), VoteDurationHours: int(g.GetVoteHours()), MemberCount: int(g.GetMembers()),
		CreatedAt: atMillis(g.GetCreatedMs()),
	}
}

// foundAt is a place in the order of what was found: the better first, of equals
// the older.
type foundAt struct {
	score float64
	id    parley.GroupID
}

func compareFound(a, b foundAt) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return slices.Compare(a.id[:], b.id[:])
}

func (f foundAt) bytes() []byte {
	return append(binary.BigEndian.AppendUint64(nil, math.Float64bits(f.score)), f.id[:]...)
}

func placeFound(b []byte) foundAt {
	if b == nil {
		return foundAt{}
	}
	return foundAt{math.Float64frombits(binary.BigEndian.Uint64(b)), parley.GroupID(b[8:])}
}

type foundGroup struct {
	foundAt
	profile api.GroupProfile
}

// shortlist keeps the best that were found.
type shortlist struct {
	most int
	best []foundGroup
}

func (l *shortlist) add(g foundGroup) {
	at, _ := slices.BinarySearchFunc(l.best, g.foundAt, func(have foundGroup, want foundAt) int {
		return compareFound(have.foundAt, want)
	})
	if at == l.most {
		return
	}
	l.best = slices.Insert(l.best, at, g)
	l.best = l.best[:min(len(l.best), l.most)]
}

// search is a query, as words.
type search struct {
	words []soughtWord
}

type soughtWord struct {
	text     string
	letters  uint64
	trigrams []trigram
}

// searchWordsMax bounds how many words of a query are looked for.
const searchWordsMax = 16

func newSearch(query string) search {
	var q search
	for _, w := range wordsOf(query) {
		if len(q.words) < searchWordsMax {
			q.words = append(q.words, soughtWord{w, lettersOf(w), trigramsOf(nil, w)})
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
func (q search) score(name, handle, description string) float64 {
	if len(q.words) == 0 {
		return 1
	}
	fields := [...]struct {
		words  []string
		weight float64
	}{{wordsOf(name), weightName}, {wordsOf(handle), weightHandle}, {wordsOf(description), weightDescription}}
	total := 0.0
	for i := range q.words {
		best := 0.0
		for _, f := range fields {
			best = max(best, f.weight*q.words[i].in(f.words))
		}
		if best == 0 {
			return 0
		}
		total += best
	}
	// Of names that fit, the one that says nothing besides fits best.
	return total/float64(len(q.words)) + 1/float64(1+len(fields[0].words))
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

// in is how well the word is found among others, 0 for not at all.
func (w *soughtWord) in(words []string) (best float64) {
	for _, word := range words {
		switch {
		case word == w.text:
			return fitWhole
		case strings.HasPrefix(word, w.text):
			best = max(best, fitBegins)
		case len(w.text) >= withinLeast && strings.Contains(word, w.text):
			best = max(best, fitWithin)
		case best < fitLike:
			if like := w.like(word); like >= likeLeast {
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
func (w *soughtWord) like(word string) float64 {
	n := len(word) - len(w.text)
	if n > mistakesMax || n < -mistakesMax || bits.OnesCount64(w.letters^lettersOf(word)) > mistakesMax {
		return 0
	}
	var kept [32]trigram
	theirs := trigramsOf(kept[:0], word)
	common := 0
	for _, t := range theirs {
		if slices.Contains(w.trigrams, t) {
			common++
		}
	}
	common = min(common, len(w.trigrams))
	return float64(common) / float64(len(w.trigrams)+len(theirs)-common)
}

// wordsOf are the words of a text, in one case.
func wordsOf(text string) []string {
	folded := strings.ReplaceAll(strings.Map(fold, text), "ß", "ss")
	return strings.FieldsFunc(folded, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
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
