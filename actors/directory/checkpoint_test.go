package directory

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/client/parley"
)

// analysisVersion is the version of checkpoints, and a hash of what some texts are divided
// into.
const analysisVersion = "3 4d25b3b8ff9b33bb"

// turned seals a block by inverting its bits under the organization, so that a block
// under another organization does not open.
func turned(org parley.OrgID, _ int, b []byte) ([]byte, error) {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ 0xFF ^ org[15]
	}
	return out, nil
}

// An index that is read from a checkpoint answers like the one that was written, before
// and after further changes, and gives the same checkpoint.
func TestCheckpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		o := Options{Embedder: "e", Dim: testDim, Instance: 1}
		x := New(o)
		c, vectors := corpus{}, map[parley.AgentID][]float32{}
		for range rapid.IntRange(0, 100).Draw(t, "changes") {
			if err := c.change(r, x, vectors); err != nil {
				t.Fatal(err)
			}
		}
		file := checkpointOf(t, x)
		y, mark, err := ReadCheckpoint(bytes.NewReader(file), o, turned)
		if err != nil || string(mark) != "mark" {
			t.Fatalf("%q %v", mark, err)
		}
		for round := range 2 {
			if x.Len() != y.Len() {
				t.Fatalf("round %d: %d cards, want %d", round, y.Len(), x.Len())
			}
			for range 20 {
				q := randomQuery(r)
				want, err := x.Search(q)
				if err != nil {
					t.Fatal(err)
				}
				got, err := y.Search(q)
				if err != nil {
					t.Fatal(err)
				}
				want.Next, got.Next = nil, nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("round %d: %+v: %s", round, q, diff)
				}
			}
			if diff := cmp.Diff(documentsOf(x), documentsOf(y), cmp.AllowUnexported(stored{}, document{}, occurrence{})); diff != "" {
				t.Fatalf("round %d: %s", round, diff)
			}
			seed := r.Uint64()
			for range 20 {
				before := seed
				for _, z := range []*Index{x, y} {
					twin := corpus{}
					for id, d := range c {
						twin[id] = d
					}
					s := rand.New(rand.NewPCG(before, 5))
					d := randomDoc(s, s.IntN(60))
					if err := z.Put(d, nil); err != nil {
						t.Fatal(err)
					}
				}
				seed++
			}
		}
	})
}

// stored is what an index has of a card.
type stored struct {
	document
	vector []float32
}

func documentsOf(x *Index) map[parley.AnyID]stored {
	all, s := map[parley.AnyID]stored{}, x.state.Load()
	for _, ordinal := range s.byOwner() {
		d := s.document(ordinal)
		slices.SortFunc(d.terms, compareOccurrences)
		slices.Sort(d.values)
		one := stored{document: *d}
		if p, i := s.at(ordinal); p.hasVector(i) {
			one.vector = p.vector(i).data
		}
		all[d.id] = one
	}
	return all
}

// A change in how texts are analyzed needs another version of checkpoints: an index from a
// checkpoint must be like one from cards.
func TestAnalysisHasAVersion(t *testing.T) {
	h := fnv.New64a()
	for _, text := range []string{
		"Invoice checkers, node.js and Müller's café", "ＦＵＬＬ width ﬁ ligature ß straße", "日本語のテキスト 한국어 русский العربية", "a_b c:d e.f 1.5 it's O'Neill", "running runs easily happiness",
	} {
		d := Doc{Name: text, Description: text, Skills: []Skill{{Name: text, Tags: []string{text}}}, Languages: []string{"en-GB"}, Categories: []string{" Office "}}
		x := d.analyzed()
		fmt.Fprintf(h, "%v %v %v %x\n", x.terms, x.lengths, x.values, x.embedded)
	}
	if got, want := fmt.Sprintf("%d %x", checkpointVersion, h.Sum64()), analysisVersion; got != want {
		t.Errorf("the analysis is %s, want %s: count checkpointVersion up and change this", got, want)
	}
}

func checkpointOf(t fataler, x *Index) []byte {
	var file bytes.Buffer
	if err := x.WriteCheckpoint(&file, []byte("mark"), turned); err != nil {
		t.Fatalf("%v", err)
	}
	return file.Bytes()
}

func smallCheckpoint(t fataler) []byte {
	x := New(Options{Embedder: "e", Dim: testDim})
	r := rand.New(rand.NewPCG(1, 6))
	for n := range 12 {
		if err := x.Put(randomDoc(r, n), randomVector(r)); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return checkpointOf(t, x)
}

// Every single changed byte and every shorter file is noticed.
func TestCheckpointDamage(t *testing.T) {
	file := smallCheckpoint(t)
	o := Options{Embedder: "e", Dim: testDim}
	read := func(file []byte) error {
		_, _, err := ReadCheckpoint(bytes.NewReader(file), o, turned)
		return err
	}
	if err := read(file); err != nil {
		t.Fatal(err)
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x10
		if err := read(damaged); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if err := read(file[:i]); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
	}
}

// Cards of an erased organization are left out, vectors of another embedder too.
func TestCheckpointLeavesOut(t *testing.T) {
	file := smallCheckpoint(t)
	erased := orgID(1)
	x, _, err := ReadCheckpoint(bytes.NewReader(file), Options{Embedder: "other", Dim: testDim}, func(org parley.OrgID, n int, b []byte) ([]byte, error) {
		if org == erased {
			return nil, nil
		}
		return turned(org, n, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := ReadCheckpoint(bytes.NewReader(file), Options{Embedder: "e", Dim: testDim}, turned)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := all.Search(Query{Org: erased, Limit: 100})
	if err != nil || *gone.Total == 0 {
		t.Fatalf("the organization has no cards, so the test shows nothing: %v", err)
	}
	r, err := x.Search(Query{Org: erased, Limit: 100})
	if err != nil || *r.Total != 0 || x.Len() != 12-*gone.Total {
		t.Errorf("found %d of an erased organization, %d in all: %v", *r.Total, x.Len(), err)
	}
	if n, m := len(x.WithoutVector(100)), len(all.WithoutVector(100)); n != x.Len() || m == all.Len() {
		t.Errorf("%d cards without vectors of another embedder, %d of the same", n, m)
	}
	failed := errors.New("no key")
	if _, _, err := ReadCheckpoint(bytes.NewReader(file), Options{}, func(parley.OrgID, int, []byte) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("the error of open is lost: %v", err)
	}
}

// No file makes a reader panic or allocate without bound.
func FuzzCheckpoint(f *testing.F) {
	f.Add(smallCheckpoint(f))
	f.Add([]byte(checkpointMagic))
	f.Fuzz(func(t *testing.T, content []byte) {
		o := Options{Embedder: "e", Dim: testDim}
		if x, _, err := ReadCheckpoint(bytes.NewReader(content), o, turned); err == nil {
			if _, err := x.Search(Query{Text: "invoice", Limit: 5}); err != nil {
				t.Fatal(err)
			}
		}
		// As the content of a block, which is what only a broken seal would let through.
		l := newLoader(nil, o, func(_ parley.OrgID, _ int, b []byte) ([]byte, error) { return b, nil })
		for cards := range 4 {
			if l.part(part{cards: uint32(cards), content: content}) != nil {
				return
			}
		}
		l.state.settle()
		l.index.index.state.Store(l.state)
		if _, err := l.index.Search(Query{Text: "invoice", Limit: 5}); err != nil {
			t.Fatal(err)
		}
	})
}
