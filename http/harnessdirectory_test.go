package http

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/directory"
	"parley/actors/directory/embed"
	"parley/actors/projection"
	"parley/client/parley"
)

// harnessEmbedder makes the vectors of a harness.
type harnessEmbedder struct {
	*embed.Concepts
	failing atomic.Bool
	// asked, if set, is called before vectors are made.
	asked atomic.Pointer[func(context.Context)]
}

var theConcepts = sync.OnceValue(embed.NewConcepts)

func (e *harnessEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if asked := e.asked.Load(); asked != nil {
		(*asked)(ctx)
	}
	if e.failing.Load() || ctx.Err() != nil {
		return nil, errors.New("no vectors today")
	}
	return e.Concepts.Embed(ctx, texts)
}

// openDirectory opens a directory over the journals of a harness. What it reads is not
// counted.
func (h *harness) openDirectory(entropy parley.Entropy, logger *slog.Logger) {
	h.t.Helper()
	h.embedder = &harnessEmbedder{Concepts: theConcepts()}
	h.directory = projection.Open(projection.Options{
		Journal: h.journal.Journal, Embedder: h.embedder, Clock: time.Now, Entropy: entropy, Logger: logger, Domain: "home.example",
	})
}

// settle waits until the directory has as many cards, each with a vector.
func (h *harness) settle(cards int) {
	h.t.Helper()
	vectors, err := theConcepts().Embed(context.Background(), []string{"weather"})
	if err != nil {
		h.t.Fatal(err)
	}
	with, all := 0, 0
	for range 1000 {
		found, err := h.directory.Agents(directory.Query{Limit: 100})
		if err != nil {
			h.t.Fatal(err)
		}
		meant, err := h.directory.Agents(directory.Query{Limit: 100, Vector: vectors[0], Threshold: -2})
		if err != nil {
			h.t.Fatal(err)
		}
		if with, all = len(meant.Rows), len(found.Rows); with == cards && all == cards {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("the directory has %d cards, %d with vectors, want %d", all, with, cards)
}

// settleGroups waits until the directory has as many groups.
func (h *harness) settleGroups(groups int) {
	h.t.Helper()
	all := 0
	for range 1000 {
		found, err := h.directory.Groups(directory.Query{Limit: 1})
		if err != nil {
			h.t.Fatal(err)
		}
		if all = *found.Total; all == groups {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("the directory has %d groups, want %d", all, groups)
}

// reopenDirectory opens another directory in place of the present one, and waits for its
// cards.
func (h *harness) reopenDirectory(cards int) {
	h.t.Helper()
	h.directory.Close()
	h.openDirectory(parley.RandomEntropy, slog.New(slog.DiscardHandler))
	h.service.Directory, h.service.directory.Index = h.directory, h.directory
	h.settle(cards)
}
