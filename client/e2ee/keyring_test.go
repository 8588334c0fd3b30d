package e2ee

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"parley/client/api"
	"parley/client/secretfile"
)

func TestKeyRingOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys", "acme")
	path := filepath.Join(dir, "ann.json")
	k, err := CreateKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	mode := func(p string) fs.FileMode {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if mode(path) != 0o600 || mode(dir) != 0o700 {
		t.Fatalf("modes %v %v", mode(path), mode(dir))
	}
	if _, err := CreateKeyRing(path); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a ring was replaced: %v", err)
	}
	ann, bob, _ := cast(t)
	if err := k.Bind(bob.AgentID(), "bob@acme.localhost"); err != nil {
		t.Fatal(err)
	}
	if err := k.Bind(ann.AgentID(), ""); !errors.Is(err, ErrOtherAgent) {
		t.Fatalf("bound twice: %v", err)
	}
	back, err := OpenKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.SigningKey() != k.SigningKey() || back.EncryptionKey() != k.EncryptionKey() || back.AgentID() != bob.AgentID() ||
		back.Handle() != "bob@acme.localhost" || mode(path) != 0o600 {
		t.Fatalf("read back %+v", back)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("left behind: %v %v", left, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyRing(path); !errors.Is(err, secretfile.ErrOpenToOthers) {
		t.Fatalf("a file that others may read: %v", err)
	}
}

// TestInterruptedRotation: wherever a rotation is interrupted, the key ring opens mail
// to the old and to the new key, and the service's answer decides which keys are
// current.
func TestInterruptedRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ann.json")
	k, err := CreateKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	ann, bob, _ := cast(t)
	if err := k.Bind(bob.AgentID(), ""); err != nil {
		t.Fatal(err)
	}
	before := k.SigningKey()
	old := seal(t, ann, k, "old")
	oldEncryption := k.EncryptionKey()
	signing, encryption, err := k.prepare(false)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(signing, encryption api.JWK) *api.AgentKeys {
		return &api.AgentKeys{SigningPublicKey: &signing, EncryptionPublicKey: &encryption}
	}
	fresh, err := Seal(ann, k.AgentID(), encryption, []byte("new"))
	if err != nil {
		t.Fatal(err)
	}
	for _, served := range []*api.AgentKeys{publish(before, oldEncryption), publish(signing, encryption), publish(signing, encryption)} {
		ring, err := OpenKeyRing(path) // as after a crash
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.settle(served); err != nil {
			t.Fatal(err)
		}
		if ring.SigningKey() != *served.SigningPublicKey || ring.EncryptionKey() != *served.EncryptionPublicKey {
			t.Fatalf("signs with %v, the service publishes %v", ring.SigningKey(), served.SigningPublicKey)
		}
		for _, text := range []string{old, fresh} {
			if _, err := Open(ring, ann.AgentID(), text, published(ann)); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, err := OpenKeyRing(path)
	if err != nil {
		t.Fatal(err)
	}
	if again.EncryptionKey() != encryption || len(again.former) != 1 || len(again.formerSigning) != 1 {
		t.Fatalf("after the rotation: %d former keys", len(again.former))
	}
	if key, current, own := again.signingPublic(before.Kid); key.X != before.X || current || !own {
		t.Fatalf("the former signing key: %v", key)
	}
	for what, served := range map[string]*api.AgentKeys{
		"former keys": publish(before, oldEncryption), "another's encryption key": publish(signing, ann.EncryptionKey()),
		"the former encryption key": publish(signing, oldEncryption), "another's signing key": publish(ann.SigningKey(), encryption), "none": {},
	} {
		if err := again.settle(served); !errors.Is(err, ErrKeysNotPublished) {
			t.Errorf("%s are published: %v", what, err)
		}
	}
}
