package datadir

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/actors/encoding"
	"parley/actors/issuer"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/cmd/parley/program"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
)

func TestTheMasterKeyMayComeFromTheEnvironment(t *testing.T) {
	data := t.TempDir()
	t.Setenv(MasterKeyVariable, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	found, err := FindMasterKey(data)
	if err != nil || found.Key == nil || found.Filed || found.Origin() != MasterKeyVariable {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, there := os.LookupEnv(MasterKeyVariable); there {
		t.Error("child processes would inherit the key")
	}
	if again, err := FindMasterKey(data); err != nil || !again.Given() || !bytes.Equal(again.Key.Bytes(), found.Key.Bytes()) {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	if err := PutMasterKey(data, found.Key.Bytes()); err != nil {
		t.Error(err)
	}
	if err := PutMasterKey(data, bytes.Repeat([]byte{7}, 32)); program.ExitCode(err) != program.ExitConflict {
		t.Errorf("another key is put beside the one that is given: %v", err)
	}
	if _, err := os.Lstat(found.File); err == nil {
		t.Error("a key that is given is written to the disk")
	}
	fromEnvironment.Store("")
	t.Cleanup(func() { fromEnvironment.Store("") })
	if err := os.WriteFile(filepath.Join(data, MasterKeyFile), []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := FindMasterKey(data)
	if err != nil || !fromFile.Filed {
		t.Fatalf("%+v, %v", fromFile, err)
	}
	sealed := found.Key.SealSecret("p", nil, []byte("s"))
	if _, err := fromFile.Key.OpenSecret("p", nil, sealed); err == nil {
		t.Error("the key of the file equals that of the environment")
	}
	for _, text := range []string{"canary", base64.StdEncoding.EncodeToString([]byte("canary canary canary")), strings.Repeat("A", 45)} {
		t.Setenv(MasterKeyVariable, text)
		if _, err := FindMasterKey(data); err == nil || strings.Contains(err.Error(), text) || program.ExitCode(err) != program.ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestInterruptedFirstStart: a crash between creating the journal and creating the key
// leaves a journal without a key. Nothing is sealed in it, so the next start creates a
// key.
func TestInterruptedFirstStart(t *testing.T) {
	data := t.TempDir()
	open := func() *persistence.Store {
		store, err := persistence.Open(filepath.Join(data, "journal"), persistence.Options{
			Clock: time.Now, Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	if err := open().Close(); err != nil {
		t.Fatal(err)
	}
	found, err := FindMasterKey(data)
	if err != nil || found.Filed || found.Key != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	store := open()
	defer func() { _ = store.Close() }()
	if key, err := found.KeyFor(store); err != nil || key == nil {
		t.Fatalf("no key was created: %v", err)
	}
	if again, err := FindMasterKey(data); err != nil || !again.Filed || again.Key == nil {
		t.Fatalf("%+v, %v", again, err)
	}
}

// sealedState is a journal that contains only the signing keys of one purpose.
type sealedState struct {
	purpose journal.Stream
	keys    issuer.State
}

func (s *sealedState) State(of journal.Stream) (uint64, []byte, error) {
	if of.Kind != journal.IssuerStream {
		return 0, nil, errors.New("another stream was asked for")
	}
	if of != s.purpose {
		return 0, nil, nil
	}
	stored, err := encoding.Marshal(&s.keys)
	return 1, stored, err
}

// TestMasterKeyOpensPublishedKeys: published signing keys must open with the master key;
// expired ones need not.
func TestMasterKeyOpensPublishedKeys(t *testing.T) {
	mine, theirs := keyOf(t, 'm'), keyOf(t, 't')
	sealed := func(by *auth.MasterKey, kid string, retired time.Duration) *issuer.Key {
		k := &issuer.Key{Kid: kid, SealedSeed: by.SealSeed(kid, make([]byte, 32)), MintedMs: 1}
		if retired > 0 {
			k.RetiredMs = time.Now().Add(-retired).UnixMilli()
		}
		return k
	}
	long := 2 * parley.SigningKeyAfterlife
	for name, c := range map[string]struct {
		keys []*issuer.Key
		with *auth.MasterKey
		want error
	}{
		"nothing is sealed":             {nil, mine, nil},
		"nothing is sealed, and no key": {nil, nil, nil},
		"its own":                       {[]*issuer.Key{sealed(mine, "a", time.Minute), sealed(mine, "b", 0)}, mine, nil},
		"no key":                        {[]*issuer.Key{sealed(mine, "a", 0)}, nil, errNoKey},
		"another's":                     {[]*issuer.Key{sealed(theirs, "a", 0)}, mine, errForeignKey},
		"one published is another's":    {[]*issuer.Key{sealed(theirs, "a", time.Minute), sealed(mine, "b", 0)}, mine, errForeignKey},
		"a forgotten one is another's":  {[]*issuer.Key{sealed(theirs, "a", long), sealed(mine, "b", 0)}, mine, nil},
	} {
		for _, purpose := range []journal.Stream{rules.SigningKeyStream, rules.CardKeyStream} {
			found := MasterKey{Key: c.with, File: "data/master.key"}
			err := found.Fits(&sealedState{purpose: purpose, keys: issuer.State{Keys: c.keys}})
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), found.File) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

func keyOf(t *testing.T, letter byte) *auth.MasterKey {
	t.Helper()
	key, err := auth.NewMasterKey([]byte(strings.Repeat(string(letter), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
