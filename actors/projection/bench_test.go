package projection

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/directory/embed"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
)

// cards returns how many cards BenchmarkStart has: PARLEY_CARDS, or 100,000.
func cards() int {
	if n, err := strconv.Atoi(os.Getenv("PARLEY_CARDS")); err == nil && n > 0 {
		return n
	}
	return 100_000
}

// fill stores organizations with five agents each, which have cards of about 80 distinct
// words.
func fill(b *testing.B, j journal.Journal) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	common := rand.NewZipf(r, 1.07, 4, 30_000-1)
	text := func(least, most int) string {
		words := make([]string, least+r.IntN(most-least+1))
		for i := range words {
			words[i] = "w" + strconv.FormatUint(common.Uint64()*7919, 36)
		}
		return strings.Join(words, " ")
	}
	var waiting sync.WaitGroup
	room := make(chan struct{}, 512)
	store := func(s journal.Stream, owner parley.OrgID, state []byte, rows ...journal.Row) {
		room <- struct{}{}
		waiting.Add(1)
		activation := j.NextActivation()
		done := func(err error) {
			if err != nil {
				b.Error(err)
			}
		}
		j.Append(&journal.Entry{Slot: s.Slot(), Stream: s, Activation: activation, Activate: true, Release: done})
		j.Append(&journal.Entry{
			Slot: s.Slot(), Stream: s, Activation: activation, Events: []journal.StoredEvent{{Tag: 1, Data: []byte("e")}}, State: state, Rows: rows,
			Owners: journal.OwnedBy(owner), At: time.Now(), Retire: true, Release: func(err error) { done(err); <-room; waiting.Done() },
		})
	}
	encoded := func(m any) []byte { return must(encoding.Marshal(m))(b) }
	var owner parley.OrgID
	for n := range cards() {
		at, slot := time.UnixMilli(1_750_000_000_000+int64(n)), parley.Slot(r.IntN(parley.Slots))
		if n%5 == 0 {
			owner = parley.NewID[parley.OrgID](slot, at, [10]byte{9, byte(n >> 16), byte(n >> 8), byte(n)})
			store(rules.OrgStream(owner), owner, encoded(&org.State{Id: owner.Bytes(), Slug: fmt.Sprint("org", n), TrustTier: int32(n % 2)}))
		}
		id := parley.NewID[parley.AgentID](slot, at, [10]byte{1, byte(n >> 16), byte(n >> 8), byte(n)})
		key := make([]byte, 32)
		store(rules.AgentStream(id), owner, encoded(&agent.State{Id: id.Bytes(), OrgId: owner.Bytes(), Name: fmt.Sprint("agent", n), SigningKey: key, EncryptionKey: key, CreatedMs: at.UnixMilli()}),
			journal.Row{Slot: id.Slot(), Table: journal.CardTable, Key: id.Bytes(), Owners: journal.OwnedBy(owner), Value: encoded(&record.Card{
				Name: text(2, 4), Description: text(35, 65), IsPublic: true, Categories: []string{fmt.Sprint("category", r.IntN(40))}, Languages: []string{"en"},
				Skills:    []*record.CardSkill{{Name: text(1, 3), Description: text(6, 14), Tags: strings.Fields(text(1, 4))}, {Name: text(1, 3), Description: text(6, 14)}},
				CreatedMs: at.UnixMilli(), UpdatedMs: at.UnixMilli(),
			})})
	}
	waiting.Wait()
}

// BenchmarkStart opens the directory over 100,000 cards without a checkpoint, and with one.
func BenchmarkStart(b *testing.B) {
	fs, logger := vfs.NewMem(), slog.New(slog.DiscardHandler)
	store, err := persistence.Open("data", persistence.Options{FS: fs, Journals: 1, Clock: time.Now, Logger: logger, CacheBytes: 64 << 20, MemTableBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	sealer := sealtest.Sealer()
	j := sealed.New(store.Journal, sealer)
	if err := j.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		b.Fatal(err)
	}
	fill(b, j)
	o := Options{
		Journal: j, Embedder: embed.NewConcepts(), Clock: time.Now, Entropy: parley.RandomEntropy, Logger: logger, Domain: "home.example",
		Checkpoint: sealed.NewFile(fs, "directory.checkpoint", sealer),
	}
	start := func() *Directory {
		d := Open(o)
		<-d.built
		if n := d.agents.Len(); n != cards() {
			b.Fatalf("the index has %d cards", n)
		}
		return d
	}
	b.Run("rows", func(b *testing.B) {
		for b.Loop() {
			if err := fs.RemoveAll("directory.checkpoint"); err != nil {
				b.Fatal(err)
			}
			d := start()
			b.StopTimer()
			for len(d.agents.WithoutVector(1)) > 0 {
				time.Sleep(time.Millisecond)
			}
			began := time.Now()
			d.Close()
			b.ReportMetric(time.Since(began).Seconds(), "s/stop")
			b.StartTimer()
		}
	})
	b.Run("checkpoint", func(b *testing.B) {
		start().Close() // so that there is one
		for b.Loop() {
			d := start()
			b.StopTimer()
			d.Close()
			b.StartTimer()
		}
	})
}
