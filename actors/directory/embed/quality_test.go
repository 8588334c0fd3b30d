package embed

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/actors/directory"
	"parley/client/parley"
)

// readCards reads testdata/cards.txt.
func readCards(t testing.TB) (docs []directory.Doc, names []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/cards.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		parts := strings.Split(line, " | ")
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "- ") && len(parts) == 3:
			d := &docs[len(docs)-1]
			d.Skills = append(d.Skills, directory.Skill{Name: parts[0][2:], Description: parts[1], Tags: strings.Split(parts[2], ", ")})
		case len(parts) == 2:
			at := time.UnixMilli(int64(len(docs)))
			docs = append(docs, directory.Doc{AgentID: parley.AgentID{14: byte(len(docs) >> 8), 15: byte(len(docs))}, Name: parts[1], Created: at, Updated: at})
			names = append(names, parts[0])
		case len(parts) == 1 && docs[len(docs)-1].Description == "":
			docs[len(docs)-1].Description = line
		default:
			t.Fatalf("cards.txt: bad line %q", line)
		}
	}
	return docs, names
}

// need is a query of the quality set and the card that meets it.
type need struct{ query, card string }

func readNeeds(t testing.TB, file string) (needs []need) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if query, card, ok := strings.Cut(strings.TrimSpace(line), " | "); ok {
			needs = append(needs, need{query, card})
		}
	}
	return needs
}

// library is an index of the quality set's cards.
type library struct {
	t        testing.TB
	index    *directory.Index
	embedder Embedder
	names    []string
}

func newLibrary(t testing.TB, e Embedder) *library {
	docs, names := readCards(t)
	x := directory.New(directory.Options{Embedder: e.ID(), Dim: e.Dim()})
	texts := make([]string, len(docs))
	for i := range docs {
		texts[i] = docs[i].EmbeddingText()
	}
	vectors, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if err := x.Put(d, vectors[i]); err != nil {
			t.Fatal(err)
		}
	}
	return &library{t, x, e, names}
}

// find returns the names of the best five cards.
func (l *library) find(query string, text, semantic bool) (names []string) {
	q := directory.Query{Limit: 5}
	if text {
		q.Text = query
	}
	if semantic {
		vectors, err := l.embedder.Embed(l.t.Context(), []string{query})
		if err != nil {
			l.t.Fatal(err)
		}
		q.Vector, q.Threshold = vectors[0], l.embedder.Threshold()
	}
	r, err := l.index.Search(q)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, row := range r.Rows {
		names = append(names, l.names[int(row.ID[14])<<8|int(row.ID[15])])
	}
	return names
}

// recall returns the share of needs whose card is among the best five.
func (l *library) recall(needs []need, text, semantic bool) (recall float64, missed []string) {
	for _, n := range needs {
		found := l.find(n.query, text, semantic)
		if slices.Contains(found, n.card) {
			recall++
		} else {
			missed = append(missed, fmt.Sprintf("%q: want %s, got %v", n.query, n.card, found))
		}
	}
	return recall / float64(len(needs)), missed
}

// Recall of the best five on paraphrased queries. The floors are a little below what was
// measured, so that a change that makes the search worse fails; docs/directory.md has the
// figures. Semantic search must find clearly more than words do.
func TestQuality(t *testing.T) {
	l := newLibrary(t, NewConcepts())
	for _, c := range []struct {
		file                 string
		text, semantic, both float64
	}{
		{"queries_tune.txt", 0.46, 0.87, 0.88},
		{"queries_held.txt", 0.46, 0.74, 0.74},
	} {
		needs := readNeeds(t, c.file)
		got := map[string]float64{}
		for _, m := range []struct {
			name           string
			text, semantic bool
			floor          float64
		}{{"text", true, false, c.text}, {"semantic", false, true, c.semantic}, {"both", true, true, c.both}} {
			recall, missed := l.recall(needs, m.text, m.semantic)
			got[m.name] = recall
			t.Logf("%s, %d queries, %s: recall@5 %.3f", c.file, len(needs), m.name, recall)
			if recall < m.floor {
				t.Errorf("%s %s: recall@5 is %.3f, at least %.3f is expected", c.file, m.name, recall, m.floor)
			}
			if c.file == "queries_tune.txt" && *showMissed {
				t.Logf("missed:\n%s", strings.Join(missed, "\n"))
			}
		}
		if got["both"] < got["text"]+0.2 || got["semantic"] < got["text"]+0.2 {
			t.Errorf("%s: the vectors add too little to words: %v", c.file, got)
		}
	}
}

var showMissed = flag.Bool("missed", false, "list the queries for tuning whose card is not found")
