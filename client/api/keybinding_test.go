package api_test

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"parley/client/api"
	"parley/client/parley"
)

// vector is a case of testdata/key-binding.json, whose keys are derived from seeds.
type vector struct {
	What           string `json:"what"`
	SigningSeed    string `json:"signing_seed_hex"`
	EncryptionSeed string `json:"encryption_private_hex"`
	PreviousSeed   string `json:"previous_signing_seed_hex,omitempty"`
	SigningKey     string `json:"signing_public_x"`
	EncryptionKey  string `json:"encryption_public_x"`
	Text           string `json:"text"`
	api.KeyBinding
}

type vectors struct {
	About    []string       `json:"about"`
	Brand    string         `json:"brand"`
	AgentID  parley.AgentID `json:"agent_id"`
	Handle   string         `json:"handle"`
	Bindings []vector       `json:"bindings"`
	SignedAt struct {
		Accept []string `json:"accept"`
		Refuse []string `json:"refuse"`
	} `json:"signed_at"`
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/key-binding.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func seed(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func signed(seed, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), text))
}

// TestKeyBindingVectors recomputes the whole file from its seeds.
func TestKeyBindingVectors(t *testing.T) {
	v := readVectors(t)
	if len(v.Bindings) != 3 || len(v.SignedAt.Accept) == 0 || len(v.SignedAt.Refuse) == 0 {
		t.Fatalf("the file has %d bindings", len(v.Bindings))
	}
	for _, b := range v.Bindings {
		public := ed25519.NewKeyFromSeed(seed(t, b.SigningSeed)).Public().(ed25519.PublicKey)
		private, err := ecdh.X25519().NewPrivateKey(seed(t, b.EncryptionSeed))
		if err != nil {
			t.Fatal(err)
		}
		signing, encryption := api.NewJWK(parley.Ed25519, public), api.NewJWK(parley.X25519, private.PublicKey().Bytes())
		text := parley.KeyBindingText(v.Brand, v.AgentID, v.Handle, signing.Kid, encryption.Kid, b.SignedAt)
		want := b
		want.SigningKey, want.EncryptionKey, want.SigningKid, want.EncryptionKid = signing.X, encryption.X, signing.Kid, encryption.Kid
		want.Text, want.Signature = string(text), signed(seed(t, b.SigningSeed), text)
		if b.PreviousSeed != "" {
			want.PreviousSignature = new(signed(seed(t, b.PreviousSeed), text))
		}
		got, _ := json.Marshal(b)
		if made, _ := json.Marshal(want); string(got) != string(made) {
			t.Errorf("%s: the file has\n%s, it should be\n%s", b.What, got, made)
		}
	}
	for _, text := range v.SignedAt.Accept {
		if _, err := parley.ParseSignedAt(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range v.SignedAt.Refuse {
		if at, err := parley.ParseSignedAt(text); err == nil {
			t.Errorf("%q reads as %v", text, at)
		}
	}
}

func TestKeyProofIsChecked(t *testing.T) {
	for signedAt, faults := range map[string]int{
		"2026-11-22T09:00:00Z": 0, "2026-11-22T09:00:00.123456Z": 0, "2026-11-22T09:00:00+00:00": 1, "2026-11-22 09:00:00Z": 1,
		"": 0, "x": 0, // of the wrong length, which the schema checks
	} {
		proof := api.KeyProof{SignedAt: signedAt}
		alone, beside := (&api.BindKeys{KeyProof: proof}).Check(), (&api.UploadKeys{KeyBinding: &proof}).Check()
		if len(alone) != faults || len(beside) != faults {
			t.Errorf("%q: %v, %v, want %d faults each", signedAt, alone, beside, faults)
		}
		if faults == 1 && (len(alone[0].Loc) != 2 || len(beside[0].Loc) != 3) {
			t.Errorf("%q: at %v, at %v", signedAt, alone[0].Loc, beside[0].Loc)
		}
	}
	if faults := (&api.UploadKeys{}).Check(); len(faults) != 0 {
		t.Errorf("without a binding: %v", faults)
	}
}
