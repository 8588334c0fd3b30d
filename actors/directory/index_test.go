package directory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/client/parley"
)

const testDim = 8

// words is a small vocabulary, so that random cards share words.
var testWords = strings.Fields(`invoice invoices receipt balance tax audit translate translation translator german french
weather forecast storm rain flight flights hotel booking travel legal contract contracts review reviewer summary summarize
meeting notes calendar schedule photo photos image edit recipe cooking vegan menu code review bug bugs deploy cloud`)

func agentID(n int) parley.AgentID {
	id := parley.AgentID{15: byte(n), 14: byte(n >> 8), 13: byte(n >> 16)}
	return id
}

func orgID(n int) parley.OrgID { return parley.OrgID(agentID(n + 1)) }

// randomDoc returns the card of agent n, made of choices of r.
func randomDoc(r *rand.Rand, n int) Doc {
	text := func(min, max int) string {
		var w []string
		for range min + r.IntN(max-min+1) {
			w = append(w, testWords[r.IntN(len(testWords))])
		}
		return strings.Join(w, " ")
	}
	some := func(of ...string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(string) bool { return r.IntN(3) > 0 })
	}
	at := time.UnixMilli(1_700_000_000_000 + int64(r.IntN(40))).UTC()
	d := Doc{
		AgentID: agentID(n), OrgID: orgID(r.IntN(4)), Name: text(1, 3), Description: text(3, 20),
		Categories: some("Finance", "travel", " Legal "), Languages: some("en", "en-GB", "de", "zh-Hant-TW"),
		Jurisdiction: []string{"", "DE", "us"}[r.IntN(3)], PricingModel: []string{"", "free", "negotiated"}[r.IntN(3)],
		MessageTypes: some("a.b.c", "A.b.c", "x.y.z"), Verified: r.IntN(2) == 0, Created: at, Updated: at,
	}
	if r.IntN(3) == 0 {
		d.Name = strings.ToUpper(d.Name)
	}
	for range r.IntN(3) {
		d.Skills = append(d.Skills, Skill{text(1, 2), text(2, 8), some("fast", "Cheap", "secure")})
	}
	return d
}

func randomVector(r *rand.Rand) []float32 {
	if r.IntN(4) == 0 {
		return nil
	}
	v := make([]float32, testDim)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func randomQuery(r *rand.Rand) Query {
	q := Query{Limit: 1 + r.IntN(8), Sort: Sort(r.IntN(3)), Threshold: 0.1, NowMS: 1_800_000_000_000}
	maybe := func() bool { return r.IntN(4) == 0 }
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(3) {
			q.Text += testWords[r.IntN(len(testWords))] + " "
		}
		if maybe() {
			q.Text = q.Text[:len(q.Text)-3]
		}
		if maybe() {
			q.Text = strings.Replace(q.Text, "o", "oo", 1)
		}
	}
	if maybe() {
		q.Vector = randomVector(r)
	}
	if maybe() {
		q.Categories = []string{[]string{"finance", "TRAVEL", "legal", "none"}[r.IntN(4)], "travel"}[:1+r.IntN(2)]
	}
	if maybe() {
		q.Languages = []string{[]string{"EN", "en-gb", "de", "zh", "zh-hant"}[r.IntN(5)]}
	}
	if maybe() {
		q.Tags = []string{"fast", "cheap", "secure"}[r.IntN(2) : 2+r.IntN(2)]
	}
	if maybe() {
		q.Jurisdiction = []string{"de", "US"}[r.IntN(2)]
	}
	if maybe() {
		q.MessageType = []string{"a.b.c", "A.b.c"}[r.IntN(2)]
	}
	if maybe() {
		q.Org = orgID(r.IntN(5))
	}
	if maybe() {
		yes := r.IntN(2) == 0
		q.Verified = &yes
	}
	if maybe() {
		q.PricingModel = []string{"free", "negotiated"}[r.IntN(2)]
	}
	return q
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// everyRow walks all pages of a query.
func everyRow(t fataler, x *Index, q Query) (rows []Row, first *Result) {
	t.Helper()
	for {
		r, err := x.Search(q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if first == nil {
			first = r
		}
		if len(r.Rows) == 0 && r.Next != nil {
			t.Fatalf("%+v: a page without rows that has a next one", q)
		}
		rows = append(rows, r.Rows...)
		if r.Next == nil {
			return rows, first
		}
		q.Position = r.Next
	}
}

// corpus is what an index should hold.
type corpus map[parley.AgentID]Doc

// change makes a random change in an index and in the corpus.
func (c corpus) change(r *rand.Rand, x *Index, vectors map[parley.AgentID][]float32) error {
	n := r.IntN(60)
	id := agentID(n)
	switch r.IntN(5) {
	case 0:
		if _, there := c[id]; x.Remove(id) != there {
			return fmt.Errorf("Remove of %v does not say whether it was there", id)
		}
		delete(c, id)
		delete(vectors, id)
	case 1:
		d, there := c[id]
		v := randomVector(r)
		done, err := x.SetVector(id, d.EmbeddingText(), v)
		if err != nil || done != (there && v != nil) {
			return fmt.Errorf("SetVector: %v %v", done, err)
		}
		if done {
			vectors[id] = v
		}
	default:
		d, v := randomDoc(r, n), randomVector(r)
		former, there := c[id]
		if err := x.Put(d, v); err != nil {
			return err
		}
		c[id] = d
		if v != nil {
			vectors[id] = v
		} else if !there || former.EmbeddingText() != d.EmbeddingText() {
			delete(vectors, id)
		}
	}
	return nil
}

// An index after random changes answers every query as an index that is built from what
// is left.
func TestIndexEqualsFreshIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x := New(Options{Dim: testDim, Instance: 1})
		if rapid.Bool().Draw(t, "compact often") {
			x.retain = func(int) int { return 3 }
		}
		c, vectors := corpus{}, map[parley.AgentID][]float32{}
		for range rapid.IntRange(1, 150).Draw(t, "changes") {
			if err := c.change(r, x, vectors); err != nil {
				t.Fatal(err)
			}
		}
		fresh := New(Options{Dim: testDim, Instance: 1})
		for id, d := range c {
			if err := fresh.Put(d, vectors[id]); err != nil {
				t.Fatal(err)
			}
		}
		if x.Len() != len(c) {
			t.Fatalf("Len is %d, want %d", x.Len(), len(c))
		}
		if diff := cmp.Diff(fresh.Categories(), x.Categories()); diff != "" {
			t.Fatal(diff)
		}
		for range 30 {
			q := randomQuery(r)
			got, err := x.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			want, err := fresh.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Next == nil) != (want.Next == nil) {
				t.Fatalf("%+v: next page: got %v, want %v", q, got.Next != nil, want.Next != nil)
			}
			got.Next, want.Next = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v: %s", q, diff)
			}
		}
	})
}

// naive says by the text of the contract whether a card passes the filters.
func naive(d Doc, q Query) bool {
	in := func(list []string, want string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), want) })
	}
	var tags []string
	for _, s := range d.Skills {
		tags = append(tags, s.Tags...)
	}
	language := func(want string) bool {
		return in(d.Languages, want) || slices.ContainsFunc(d.Languages, func(l string) bool {
			return len(l) > len(want) && strings.EqualFold(l[:len(want)+1], want+"-")
		})
	}
	return (len(q.Categories) == 0 || slices.ContainsFunc(q.Categories, func(c string) bool { return in(d.Categories, c) })) &&
		(len(q.Languages) == 0 || slices.ContainsFunc(q.Languages, language)) &&
		!slices.ContainsFunc(q.Tags, func(tag string) bool { return !in(tags, tag) }) &&
		(q.Jurisdiction == "" || strings.EqualFold(d.Jurisdiction, q.Jurisdiction)) &&
		(q.MessageType == "" || slices.Contains(d.MessageTypes, q.MessageType)) &&
		(q.Org.Zero() || d.OrgID == q.Org) &&
		(q.Verified == nil || d.Verified == *q.Verified) &&
		(q.PricingModel == "" || d.PricingModel == q.PricingModel)
}

// A walk through all pages finds what a scan of all cards finds, in the order of the
// contract.
func TestFiltersAndOrdersEqualScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		x := New(Options{Dim: testDim, Instance: 1})
		c := corpus{}
		for range rapid.IntRange(1, 100).Draw(t, "changes") {
			if err := c.change(r, x, map[parley.AgentID][]float32{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 {
			q := randomQuery(r)
			q.Text, q.Vector = "", nil
			var want []parley.AnyID
			for id, d := range c {
				if naive(d, q) {
					want = append(want, parley.AnyID(id))
				}
			}
			slices.SortFunc(want, func(a, b parley.AnyID) int {
				x, y := c[parley.AgentID(a)], c[parley.AgentID(b)]
				byKey := y.Created.Compare(x.Created)
				if q.Sort == ByName {
					byKey = strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name))
				}
				if byKey != 0 {
					return byKey
				}
				return bytes.Compare(a[:], b[:])
			})
			rows, first := everyRow(t, x, q)
			var got []parley.AnyID
			for _, row := range rows {
				got = append(got, row.ID)
			}
			if !slices.Equal(got, want) || *first.Total != len(want) || first.Scored {
				t.Fatalf("%+v: got %v of %d, want %v", q, got, *first.Total, want)
			}
		}
	})
}
