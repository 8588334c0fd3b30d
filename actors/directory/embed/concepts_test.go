package embed

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
)

func vectorsOf(t *testing.T, e Embedder, texts ...string) [][]float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), texts)
	if err != nil || len(v) != len(texts) {
		t.Fatal(v, err)
	}
	return v
}

func TestConcepts(t *testing.T) {
	c := NewConcepts()
	v := vectorsOf(t, c, "a bill from my supplier", "invoice of a vendor", "rain tomorrow", "", "the and of")
	for i, x := range v {
		length := math.Sqrt(float64(dot(x, x)))
		if want := float64(1 - i/3); len(x) != c.Dim() || math.Abs(length-want) > 1e-5 {
			t.Errorf("vector %d has %d numbers and length %v, want %v", i, len(x), length, want)
		}
	}
	near, far := dot(v[0], v[1]), dot(v[0], v[2])
	if near < c.Threshold() || far > c.Threshold() {
		t.Errorf("a paraphrase has a cosine of %v, another subject %v, the threshold is %v", near, far, c.Threshold())
	}
	again := vectorsOf(t, NewConcepts(), "a bill from my supplier")
	if !slices.Equal(again[0], v[0]) {
		t.Error("another table makes another vector")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Embed(gone, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the context is ignored: %v", err)
	}
}

// The vectors of the embedded provider may change only together with its id: stored
// vectors are compared with new ones.
func TestConceptsAreStable(t *testing.T) {
	sum := 0.0
	for i, f := range vectorsOf(t, NewConcepts(), "Reads invoices and books them, in German and English. Zyzzyva!")[0] {
		sum += float64(f) * float64(i%17+1)
	}
	const want = 22.05658
	if math.Abs(sum-want) > 1e-4 || NewConcepts().ID() != "parley-concepts-1" {
		t.Errorf("the sum is %.5f; if vectors have changed, change conceptsID", sum)
	}
}

func TestParseConcepts(t *testing.T) {
	c, err := parseConcepts("# comment\n\na: x y\nb <a: x z\n~c: w\n")
	if err != nil {
		t.Fatal(err)
	}
	half := float32(1 / math.Sqrt(2))
	for stem, want := range map[string][]activation{
		"y": {{0, 1}}, "z": {{1, 1}, {0, weightParent}}, "w": {{2, weightGeneral}},
		"x": {{0, half}, {1, half}, {0, weightParent * half}},
	} {
		if got := c.byStem[stem]; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", stem, got, want)
		}
	}
	for _, bad := range []string{"a x", "a:", "a: x\na: y", "a <b: x"} {
		if _, err := parseConcepts(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func BenchmarkConcepts(b *testing.B) {
	c := NewConcepts()
	text := []string{"Reads incoming bills from suppliers as PDF or photo, returns vendor, totals, due date and line items as JSON, and flags entries that were booked before. Extract fields: turns a supplier bill into structured records."}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Embed(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
