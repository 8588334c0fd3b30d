package auth_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parley/http/auth"
)

func TestMasterKeyIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	made := make([]*auth.MasterKey, 8)
	var group sync.WaitGroup
	for i := range made {
		group.Go(func() {
			key, err := auth.MakeMasterKey(path)
			if err != nil {
				t.Error(err)
			}
			made[i] = key
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	seed := bytes.Repeat([]byte{7}, 32)
	sealed := made[0].SealSeed("kid", seed)
	for i, key := range made {
		if got, err := key.OpenSeed("kid", sealed); err != nil || !bytes.Equal(got, seed) {
			t.Fatalf("loader %d has another key: %v", i, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 32 {
		t.Fatalf("%v, %v", info, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	found, err := auth.LoadMasterKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.OpenSeed("kid", sealed); err != nil {
		t.Errorf("another key is loaded: %v", err)
	}
}

func TestMissingMasterKeyIsNotCreated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	if _, err := auth.LoadMasterKey(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the missing file: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestUnfitMasterKeyFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		mode os.FileMode
	}{
		{"empty", 0, 0o600}, {"short", 31, 0o600}, {"long", 33, 0o600}, {"group may read", 32, 0o640}, {"world may read", 32, 0o604},
	} {
		path := filepath.Join(t.TempDir(), "master.key")
		if err := os.WriteFile(path, make([]byte, c.size), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := auth.LoadMasterKey(path)
		if !errors.Is(err, auth.ErrMasterKey) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
		if exposed := c.mode&0o077 != 0; errors.Is(err, auth.ErrMasterKeyExposed) != exposed {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := auth.MakeMasterKey(path); !errors.Is(err, auth.ErrMasterKey) {
			t.Errorf("%s, where one is made: %v", c.name, err)
		}
	}
	if _, err := auth.LoadMasterKey(t.TempDir()); err == nil {
		t.Error("a directory serves as key")
	}
	if _, err := auth.MakeMasterKey(filepath.Join(t.TempDir(), "absent", "master.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing directory: %v", err)
	}
}

func TestSealedSeedIsBoundToItsKid(t *testing.T) {
	key, err := auth.NewMasterKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := auth.NewMasterKey(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	seed := bytes.Repeat([]byte{9}, 32)
	sealed := key.SealSeed("kid", seed)
	if bytes.Equal(sealed, key.SealSeed("kid", seed)) || bytes.Contains(sealed, seed[:8]) {
		t.Fatal("two seals are equal")
	}
	if got, err := key.OpenSeed("kid", sealed); err != nil || !bytes.Equal(got, seed) {
		t.Fatalf("%x, %v", got, err)
	}
	if _, err := key.OpenSeed("another", sealed); !errors.Is(err, auth.ErrSealed) {
		t.Errorf("under another kid: %v", err)
	}
	if _, err := other.OpenSeed("kid", sealed); !errors.Is(err, auth.ErrSealed) {
		t.Errorf("under another master key: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := key.OpenSeed("kid", changed); !errors.Is(err, auth.ErrSealed) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	for n := range sealed {
		if _, err := key.OpenSeed("kid", sealed[:n]); !errors.Is(err, auth.ErrSealed) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := auth.NewMasterKey(seed[:16]); !errors.Is(err, auth.ErrMasterKey) {
		t.Errorf("16 bytes: %v", err)
	}
}

func TestSealedSecretIsBoundToItsPurpose(t *testing.T) {
	key, err := auth.NewMasterKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := auth.NewMasterKey(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	id, secret := []byte("id"), []byte("whsec_secret")
	sealed := key.SealSecret("webhook", id, secret)
	if got, err := key.OpenSecret("webhook", id, sealed); err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("%q, %v", got, err)
	}
	if bytes.Contains(sealed, secret) || bytes.Equal(sealed, key.SealSecret("webhook", id, secret)) {
		t.Error("the seal contains part of the secret")
	}
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	for name, err := range map[string]error{
		"another purpose":     refused(key.OpenSecret("mail", id, sealed)),
		"another id":          refused(key.OpenSecret("webhook", []byte("di"), sealed)),
		"moved boundary":      refused(key.OpenSecret("webhook\x00i", []byte("d"), sealed)),
		"another key":         refused(other.OpenSecret("webhook", id, sealed)),
		"a changed byte":      refused(key.OpenSecret("webhook", id, flipped)),
		"nothing":             refused(key.OpenSecret("webhook", id, nil)),
		"cut short":           refused(key.OpenSecret("webhook", id, sealed[:5])),
		"a seed of that name": refused(key.OpenSecret("webhook", id, key.SealSeed("webhook\x00id", make([]byte, 32)))),
		"a secret as a seed":  refused(key.OpenSeed("webhook\x00id", key.SealSecret("webhook", id, make([]byte, 32)))),
	} {
		if !errors.Is(err, auth.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func refused(_ []byte, err error) error { return err }
