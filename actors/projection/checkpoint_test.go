package projection

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/directory"
	"parley/actors/directory/embed"
	"parley/actors/org"
	"parley/actors/record"
	"parley/client/parley"
	"parley/persistence/sealed"
)

// logged collects log lines.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// take returns what was logged since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.lines.Reset()
	return l.lines.String()
}

// state is everything that an index answers, and how many cards have vectors.
func stateOf(t *testing.T, d *Directory) string {
	t.Helper()
	var all strings.Builder
	for _, q := range []directory.Query{
		{},
		{Sort: directory.ByName},
		{Verified: new(true)},
		{Verified: new(false)},
		{Text: "invoice"},
		{Text: "letters rain"},
		{Text: "wether"},
		{Categories: []string{"office"}},
		{Vector: must(embed.NewConcepts().Embed(t.Context(), []string{"bookkeeping"}))(t)[0], Threshold: -2},
	} {
		q.Limit = 100
		for {
			r := must(d.Agents(q))(t)
			for _, row := range r.Rows {
				fmt.Fprintf(&all, "%s %.6f, ", row.ID, row.Score)
			}
			if q.Position = r.Next; q.Position == nil {
				break
			}
		}
		all.WriteString("\n")
	}
	fmt.Fprint(&all, must(d.Categories())(t))
	return all.String()
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// settled waits until all changes so far are in the index, with vectors.
func (s *scene) settled() {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		select {
		case <-s.d.built:
			if s.d.changed.len() == 0 && len(s.d.agents.WithoutVector(1)) == 0 {
				time.Sleep(5 * time.Millisecond) // what is being read
				if s.d.changed.len() == 0 && len(s.d.agents.WithoutVector(1)) == 0 {
					return
				}
			}
		default:
		}
		if time.Since(began) > 20*time.Second {
			s.t.Fatal("the index does not settle")
		}
	}
}

// rebuilt is the state of an index that was built from rows.
func (s *scene) rebuilt() string {
	s.t.Helper()
	current := s.d
	s.d = Open(Options{Journal: s.journal, Embedder: s.embedder, Clock: time.Now, Entropy: s.entropy, Logger: slog.New(slog.DiscardHandler), Domain: "home.example"})
	defer func() {
		s.d.Close()
		s.d = current
	}()
	s.settled()
	return stateOf(s.t, s.d)
}

// randomChange changes an agent, a card or an organization.
func (s *scene) randomChange(r *rand.Rand, orgs []parley.OrgID, agents []parley.AgentID) {
	s.t.Helper()
	id := agents[r.IntN(len(agents))]
	var err error
	switch r.IntN(8) {
	case 0:
		_, err = s.node.Agents.Change(s.t.Context(), id, agent.Change{Unlisted: new(r.IntN(2) == 0)})
	case 1:
		_, err = s.node.Agents.Change(s.t.Context(), id, agent.WithdrawCard{})
	case 2:
		_, err = s.node.Orgs.SetTerms(s.t.Context(), orgs[r.IntN(len(orgs))], org.GrantTier{Tier: r.IntN(2)})
	case 3:
		if r.IntN(3) == 0 {
			_, err = s.node.Agents.Change(s.t.Context(), id, agent.Revoke{})
		}
	default:
		words := strings.Fields("invoice letters rain weather office clerk scribe bookkeeping taxes")
		_, err = s.node.Agents.PublishCard(s.t.Context(), id, agent.PublishCard{Public: r.IntN(5) > 0}, &record.Card{
			Name: words[r.IntN(len(words))] + " " + words[r.IntN(len(words))], Description: "Does " + words[r.IntN(len(words))], Categories: []string{[]string{"office", "field"}[r.IntN(2)]},
		})
	}
	if err != nil && !parley.IsRefusal(err) {
		s.t.Fatal(err)
	}
}

// TestCheckpointIsLikeRows: after restarts, from checkpoints that have everything, less, or
// nothing, the index answers like one that was built from rows.
func TestCheckpointIsLikeRows(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t)
		log := s.keepsCheckpoint()
		r := rand.New(rand.NewPCG(seed, 1))
		var orgs []parley.OrgID
		var agents []parley.AgentID
		for i := range 3 {
			orgs = append(orgs, s.org(fmt.Sprint("org", i)))
			for j := range 4 {
				agents = append(agents, s.agent(orgs[i], fmt.Sprint("agent", j)))
			}
		}
		for round := range 6 {
			for range r.IntN(15) {
				s.randomChange(r, orgs, agents)
			}
			checkpoint := r.IntN(3) > 0 || round == 0
			s.settled()
			if checkpoint {
				s.d.writeCheckpoint(s.d.versions.encode())
			}
			for range r.IntN(15) {
				s.randomChange(r, orgs, agents)
			}
			s.settled()
			switch r.IntN(3) {
			case 0:
				s.kill()
			case 1:
				s.crash(r)
			default:
				s.close()
			}
			log.take()
			s.open()
			s.settled()
			if got, want := stateOf(t, s.d), s.rebuilt(); got != want {
				t.Fatalf("seed %d, round %d:\ngot  %s\nwant %s\n%s", seed, round, got, want, log.take())
			}
			if said := log.take(); !strings.Contains(said, "compared") || strings.Contains(said, "cannot be used") || strings.Contains(said, "no checkpoint") {
				t.Fatalf("the checkpoint was not used: %s", said)
			}
		}
	}
}

// TestUnchangedCardsAreNotRead: after a restart only what has changed since the checkpoint
// is read, and no vectors are made again. If versions did not tell states apart, the
// control, a changed card would be missed.
func TestUnchangedCardsAreNotRead(t *testing.T) {
	for _, same := range []bool{false, true} {
		s := newScene(t)
		s.sameVersions = same
		log := s.keepsCheckpoint()
		owner := s.org("acme")
		clerk, scribe, hidden := s.agent(owner, "clerk"), s.agent(owner, "scribe"), s.agent(owner, "hidden")
		s.publish(clerk, true, "Invoice clerk", "Writes bills.")
		s.publish(scribe, true, "Scribe", "Writes letters.")
		s.publish(hidden, false, "Hidden", "Writes nothing.")
		s.settled()
		s.close()
		s.open()
		s.settled()
		if said := log.take(); !strings.Contains(said, "cards=2 compared=4 changed=0") {
			t.Errorf("a restart without changes: %s", said)
		}
		s.publish(clerk, true, "Invoice clerk", "Writes receipts.")
		s.settled()
		s.kill()
		made := s.embedder.texts.Load()
		s.open()
		s.settled()
		want := "changed=1"
		if same {
			want = "changed=0"
		}
		said, n := log.take(), s.embedder.texts.Load()-made
		if found := s.found(directory.Query{Text: "receipts"}); len(found) == 0 != same || !strings.Contains(said, want) || n > 1 {
			t.Errorf("same versions %v: found %v, made %d vectors: %s", same, found, n, said)
		}
	}
}

// TestUselessCheckpoint: a checkpoint that is damaged, cut, of another version or not
// there, and one whose vectors are another provider's, cost time only.
func TestUselessCheckpoint(t *testing.T) {
	s := newScene(t)
	log := s.keepsCheckpoint()
	clerk := s.agent(s.org("acme"), "clerk")
	s.publish(clerk, true, "Invoice clerk", "Writes bills.")
	s.settled()
	s.close()
	good := s.checkpointFile(nil)
	version := bytes.Clone(good)
	binary.BigEndian.PutUint16(version[8:], 1)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for what, content := range map[string][]byte{"damaged": flipped, "of another version": version, "cut": good[:len(good)-5], "empty": {}, "missing": nil, "good": good} {
		if s.checkpointFile(content); content == nil {
			if err := s.fs.Remove("directory.checkpoint"); err != nil {
				t.Fatal(err)
			}
		}
		log.take()
		s.open()
		s.settled()
		s.finds(what, directory.Query{Text: "invoice"}, clerk)
		said := log.take()
		if refused := strings.Contains(said, "cannot be used") || strings.Contains(said, "no checkpoint"); refused == (what == "good") {
			t.Errorf("a checkpoint that is %s: %s", what, said)
		}
		s.close()
	}
	made := s.embedder.texts.Load()
	s.embedder.id = "another"
	s.open()
	s.settled()
	if n := s.embedder.texts.Load() - made; n != 1 {
		t.Errorf("another provider made %d vectors, want 1", n)
	}
}

// TestCheckpointIsSealed: the file has no words of a card.
func TestCheckpointIsSealed(t *testing.T) {
	for _, plain := range []bool{false, true} { // true: the control
		s := newScene(t)
		s.keepsCheckpoint()
		s.plain = plain
		s.close()
		s.open()
		s.publish(s.agent(s.org("acme"), "clerk"), true, "Xylophone clerk", "Writes bills.")
		s.settled()
		s.close()
		if found := bytes.Contains(s.checkpointFile(nil), []byte("ylophone")); found != plain {
			t.Errorf("sealed %v: a word is found: %v", !plain, found)
		}
		s.open()
	}
}

// plainFile is a file that seals nothing.
type plainFile struct{ *sealed.File }

func (plainFile) Seal(_ parley.OrgID, _ int, plain []byte) ([]byte, error) {
	return bytes.Clone(plain), nil
}

func (plainFile) Unseal(_ parley.OrgID, _ int, plain []byte) ([]byte, error) { return plain, nil }

// keepsCheckpoint opens the directory again, with a checkpoint, and returns its log.
func (s *scene) keepsCheckpoint() *logged {
	s.close()
	s.log, s.checkpoint = &logged{}, true
	s.open()
	return s.log
}

// kill ends the process without a last checkpoint.
func (s *scene) kill() {
	s.d.unobserve()
	s.d.stop()
	s.d.running.Wait()
	s.d.o.Checkpoint = nil
	s.close()
}

// crash stops the machine while a checkpoint is written: some of what was not synced is
// lost. The index must be settled.
func (s *scene) crash(r *rand.Rand) {
	versions := s.d.versions.encode()
	var writing sync.WaitGroup
	writing.Go(func() { s.d.writeCheckpoint(versions) })
	time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
	left := s.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: rand.New(rand.NewPCG(r.Uint64(), 2))})
	writing.Wait()
	s.kill()
	s.fs = left
}

// checkpointFile returns the content of the checkpoint, and replaces it if content is given.
func (s *scene) checkpointFile(content []byte) []byte {
	s.t.Helper()
	if content != nil {
		f := must(s.fs.Create("directory.checkpoint", vfs.WriteCategoryUnspecified))(s.t)
		if _, err := f.Write(bytes.Clone(content)); err != nil {
			s.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	f, err := s.fs.Open("directory.checkpoint")
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		s.t.Fatal(err)
	}
	return slices.Clone(b)
}
