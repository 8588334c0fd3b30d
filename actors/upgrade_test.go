package actors

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/journaltest"
	"parley/persistence/sealed"
)

// Every release can read what earlier releases wrote in the present format.
// testdata/releases has one folder for each release that stored something new, with
// what one small scenario stored:
//
//	content.txt    every key and value, with its meaning
//	answers.txt    the answers to readers, and the meaning of single rows
//	data.tar.gz    the directory itself
//
// A folder never changes once users have a release that writes such data, because their
// disks hold the same. If a later release stores something new, TestUpgradeCoverage
// fails until a folder has it:
//
//	go test ./actors -run TestUpgrade -release NAME
var makeRelease = flag.String("release", "", "store what this code writes as testdata/releases/NAME")

// releaseJournals is how many journals the directory of a stored release has.
const releaseJournals = 2

func storedReleases(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/releases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no releases are stored (%v)", err)
	}
	return dirs
}

func fileOf(t testing.TB, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sameText fails the test if two texts differ, and shows the lines that do.
func sameText(t testing.TB, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("stored data of a release now reads differently:\n%s", diff)
	}
}

// TestUpgradeContent decodes all stored data and checks that its meaning has not
// changed. It replays each stream and compares the result with the stored state, and it
// gets the recorded answers from a store that contains just this data.
func TestUpgradeContent(t *testing.T) {
	if *makeRelease != "" {
		writeRelease(t, filepath.Join("testdata/releases", *makeRelease))
	}
	for _, dir := range storedReleases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text := string(fileOf(t, dir, "content.txt"))
			pairs := parseContent(t, text)
			sameText(t, renderContent(t, pairs), text)
			checkFolded(t, openPairs(t, pairs))
			data := filepath.Join(t.TempDir(), "journal")
			if err := journaltest.Fill(data, pairs); err != nil {
				t.Fatal(err)
			}
			checkAnswers(t, data, true, dir)
		})
	}
}

// allPairs returns the pairs of all stored releases.
func allPairs(t testing.TB) []journaltest.Pair {
	t.Helper()
	var pairs []journaltest.Pair
	for _, dir := range storedReleases(t) {
		pairs = append(pairs, openPairs(t, parseContent(t, string(fileOf(t, dir, "content.txt"))))...)
	}
	return pairs
}

// TestUpgradeCoverage requires an example of each kind of event, each table and each
// family of keys. Without one, a change would go unnoticed.
func TestUpgradeCoverage(t *testing.T) {
	pairs := allPairs(t)
	for _, lack := range uncovered(t, pairs) {
		t.Errorf("there is no example of %s: extend the scenario in upgrade_scenario_test.go", lack)
	}
	told := ""
	for _, dir := range storedReleases(t) {
		told += string(fileOf(t, dir, "answers.txt"))
	}
	for _, line := range []string{"\nof organization ", "\nchallenge ", "\na SPIFFE id of ", "\nbeing erased: ", "\nkey log: ", "\nin quarantine: "} {
		if !strings.Contains(told, line) {
			t.Errorf("no release's answers.txt contains %q", line)
		}
	}
	// The control: if one kind is removed, it must be reported.
	for _, without := range []string{"conversation event 3", "table 8", "table 20", "table 21", "table 22", "table 28", "table 29", "table 30", "table 31", "keylog event 1", "stream of kind 9", "family a", "family t", "directory h"} {
		fewer := slices.DeleteFunc(slices.Clone(pairs), func(p journaltest.Pair) bool { return slices.Contains(covers(p), without) })
		if lacks := uncovered(t, fewer); len(fewer) == len(pairs) || !slices.Contains(lacks, without) {
			t.Errorf("%s was removed, but %q were reported", without, lacks)
		}
	}
}

// TestUpgradeControl: a change to stored data must be noticed.
func TestUpgradeControl(t *testing.T) {
	text := string(fileOf(t, storedReleases(t)[0], "content.txt"))
	pairs := parseContent(t, text)
	changed := openPairs(t, pairs)
	at := slices.IndexFunc(changed, func(p journaltest.Pair) bool {
		return slices.Contains(covers(p), "org event 1") && bytes.Contains(p.Value, []byte("acme"))
	})
	changed[at].Value = bytes.Replace(changed[at].Value, []byte("acme"), []byte("acne"), 1)
	if renderOpened(t, pairs, changed) == text {
		t.Error("a changed event has the same meaning as the stored one")
	}
}

// TestUpgradeDirectory opens the directory itself, verifies it and gets the recorded
// answers.
func TestUpgradeDirectory(t *testing.T) {
	for _, dir := range storedReleases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			data := t.TempDir()
			unpack(t, fileOf(t, dir, "data.tar.gz"), data)
			checkAnswers(t, filepath.Join(data, "journal"), false, dir)
		})
	}
}

// openRelease opens a directory as a server would, at the instant at which the scenario
// ended.
func openRelease(t testing.TB, dir string, journals int, clock parley.Clock, acceptLoss bool) (*persistence.Store, *Node) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	// The journal's own clock runs steadily: a jump would look like a disk that hangs.
	at, began := clock(), time.Now()
	store, err := persistence.Open(dir, persistence.Options{
		Clock: func() time.Time { return at.Add(time.Since(began)) }, Logger: logger, CacheBytes: 1 << 20, MemTableBytes: 1 << 20, AcceptLoss: acceptLoss,
		Journals: journals, Fatal: func(err error) { panic(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	node := New(Options{Journal: sealed.New(store.Journal, testSealer), Clock: clock, Entropy: seededEntropy(at), Logger: logger})
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	return store, node
}

// seededEntropy returns randomness that is the same in each run and spreads agents over
// homes.
func seededEntropy(at time.Time) parley.Entropy {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(uint64(at.Unix()), 1))
	return func() (b [10]byte) {
		mu.Lock()
		defer mu.Unlock()
		binary.BigEndian.PutUint64(b[2:], random.Uint64())
		binary.BigEndian.PutUint16(b[:], uint16(random.Uint64()))
		return b
	}
}

// checkAnswers verifies a directory, compares the answers with those recorded in the
// release, and then sends new messages.
func checkAnswers(t *testing.T, dir string, acceptLoss bool, release string) {
	t.Helper()
	clock := newManualClock(lifeEnds)
	store, node := openRelease(t, dir, 0, clock.now, acceptLoss)
	audit := verifyStore(t, &testNode{t: t, store: store})
	v := store.View()
	aside := len(quarantined(t, v))
	v.Close()
	for _, f := range audit.First(10) {
		if f.Check != "quarantine" {
			t.Errorf("verify: %v", f)
		}
	}
	if n := audit.Faults(); n != uint64(aside) {
		t.Errorf("verify: %d faults, but %d rows in quarantine", n, aside)
	}
	sameText(t, answers(t, store, node), string(fileOf(t, release, "answers.txt")))
	checkNewMessages(t, store, node)
	node.Close()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// checkNewMessages repeats a recorded send, whose key is still recognized, and makes a
// new one.
func checkNewMessages(t *testing.T, store *persistence.Store, node *Node) {
	t.Helper()
	ctx := context.Background()
	acme := must(node.Orgs.BySlug(ctx, "acme"))(t)
	globex := must(node.Orgs.BySlug(ctx, "globex"))(t)
	alice := must(node.Agents.ByName(ctx, acme, "alice"))(t)
	bob := must(node.Agents.ByName(ctx, globex, "bob"))(t)
	again := directBetween(acme, globex, alice, bob, "once", "key-1")
	repeated := must(node.Messages.Send(ctx, again))(t)
	if !repeated.Repeated || string(repeated.Message.GetContent()) != "once" {
		t.Errorf("the recorded key gives %v", repeated.Message)
	}
	fresh := must(node.Messages.Send(ctx, directBetween(acme, globex, alice, bob, "fresh", "key-2")))(t)
	page, _, err := node.Messages.Inbox(ctx, bob, 0, 1, "", nil)
	if err != nil || len(page) != 1 || page[0].Record.MessageID() != fresh.Message.MessageID() {
		t.Errorf("the newest message is not the one sent last (%v)", err)
	}
	awaitIdleStore(t, store)
}

// writeRelease runs the scenario and stores what it leaves.
func writeRelease(t *testing.T, dir string) {
	t.Helper()
	data := t.TempDir()
	clock := newManualClock(noon)
	store, node := openRelease(t, filepath.Join(data, "journal"), releaseJournals, clock.now, false)
	(&releaseScenario{t: t, store: store, node: node, clock: clock}).run()
	said := answers(t, store, node)
	pairs := pairsOf(t, store)
	node.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"content.txt": []byte(renderContent(t, pairs)), "answers.txt": []byte(said), "data.tar.gz": pack(t, data),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // committed
			t.Fatal(err)
		}
	}
}

func pairsOf(t testing.TB, store *persistence.Store) []journaltest.Pair {
	t.Helper()
	archive := store.Archive()
	var pairs []journaltest.Pair
	err := archive.Pairs(func(key, value []byte) error {
		pairs = append(pairs, journaltest.Pair{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return nil
	})
	if err = errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return pairs
}

// awaitIdleStore waits until no message is pending and no actor has one in its queue.
func awaitIdleStore(t testing.TB, store *persistence.Store) {
	t.Helper()
	eventually(t, "nothing is underway", func() bool {
		archive, still := store.Archive(), true
		err := archive.Underway(func(journal.Effect) error { still = false; return nil })
		heard := archive.Queues(func(journal.Stream, []byte) error { still = false; return nil })
		return errors.Join(err, heard, archive.Close()) == nil && still
	})
}

// pack archives a closed directory, without lock files.
func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "LOCK" {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Size: int64(len(content)), Mode: 0o600, ModTime: noon, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err = errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(t testing.TB, packed []byte, dir string) {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(header.Name) {
			t.Fatal(header, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		content, err := io.ReadAll(archive)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700))
		if err = errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// lifeEnds is the time at which the stored scenario ends.
var lifeEnds = noon.Add(20 * time.Minute)
