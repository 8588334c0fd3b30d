package auth_test

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/http/auth"
)

// The public key of RFC 8037 appendix A.
const rfc8037 = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// wrongMember returns the member that a refusal names, or "" if the key was accepted.
func wrongMember(t *testing.T, err error) string {
	t.Helper()
	bad := (*auth.KeyError)(nil)
	if err != nil && (!errors.As(err, &bad) || bad.Text == "" || bad.Type == "") {
		t.Fatalf("not a sound KeyError: %v", err)
	}
	if bad == nil {
		return ""
	}
	return bad.Member + " " + bad.Type
}

func TestParseOKPForm(t *testing.T) {
	sum := strings.Repeat("B", 42)
	for _, c := range []struct {
		name, kty, crv, x string
		hasD              bool
		want              string
	}{
		{"Ed25519", "OKP", "Ed25519", rfc8037, false, ""},
		{"X25519", "OKP", "X25519", rfc8037, false, ""},
		{"private", "OKP", "Ed25519", rfc8037, true, "d value_error"},
		{"no kty", "", "Ed25519", rfc8037, false, "kty missing"},
		{"no crv", "OKP", "", rfc8037, false, "crv missing"},
		{"no x", "OKP", "Ed25519", "", false, "x missing"},
		{"EC", "EC", "Ed25519", rfc8037, false, "kty value_error"},
		{"okp", "okp", "Ed25519", rfc8037, false, "kty value_error"},
		{"P-256", "OKP", "P-256", rfc8037, false, "crv value_error"},
		{"Ed448", "OKP", "Ed448", rfc8037, false, "crv value_error"},
		{"padded", "OKP", "X25519", rfc8037 + "=", false, "x value_error"},
		{"line break after", "OKP", "X25519", rfc8037 + "\n", false, "x value_error"},
		{"line break within", "OKP", "X25519", rfc8037[:20] + "\n" + rfc8037[21:], false, "x value_error"},
		{"standard alphabet", "OKP", "X25519", strings.ReplaceAll(rfc8037, "_", "/"), false, "x value_error"},
		{"trailing bits", "OKP", "X25519", sum + "B", false, "x value_error"},
		{"31 bytes", "OKP", "X25519", b64(make([]byte, 31)), false, "x value_error"},
		{"33 bytes", "OKP", "X25519", b64(make([]byte, 33)), false, "x value_error"},
		{"hex", "OKP", "X25519", hex.EncodeToString(make([]byte, 32)), false, "x value_error"},
	} {
		_, err := auth.ParseOKP(c.kty, c.crv, c.x, c.hasD)
		if got := wrongMember(t, err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := auth.ParseKey(parley.X25519, "OKP", "Ed25519", rfc8037, false); wrongMember(t, err) != "crv value_error" {
		t.Errorf("a key on the wrong curve: %v", err)
	}
	if _, err := auth.ParseKey(parley.Ed25519, "OKP", "Ed25519", rfc8037, false); err != nil {
		t.Errorf("a key on the right curve: %v", err)
	}
}

// worthlessEd25519 lists y coordinates of small order or in a non-canonical encoding.
var worthlessEd25519 = []string{
	"0100000000000000000000000000000000000000000000000000000000000000", // identity
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
	"0000000000000000000000000000000000000000000000000000000000000000", // order 4
	"0000000000000000000000000000000000000000000000000000000000000080", // order 4
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85", // order 8
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", // order 8
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa", // order 8
	"0100000000000000000000000000000000000000000000000000000000000080", // identity, sign of zero
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", // order 2, sign of zero
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 1
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 3, full order
	"0200000000000000000000000000000000000000000000000000000000000000", // not on the curve
}

func TestWorthlessEd25519KeysAreRefused(t *testing.T) {
	for _, text := range worthlessEd25519 {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := auth.ParseOKP("OKP", parley.Ed25519, b64(raw), false); wrongMember(t, err) != "x value_error" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLowOrderX25519KeysAreRefused: all 32-byte keys whose key agreement gives zero are
// refused, and no others. The standard library decides.
func TestLowOrderX25519KeysAreRefused(t *testing.T) {
	private, err := ecdh.X25519().NewPrivateKey([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	worthless := func(raw []byte) bool {
		public, err := ecdh.X25519().NewPublicKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = private.ECDH(public)
		return err != nil
	}
	var table []string
	for _, last := range []string{"7f", "ff"} {
		for _, first := range []string{"eb", "ec", "ed", "ee", "ef", "f0", "ff"} {
			table = append(table, first+strings.Repeat("ff", 30)+last)
		}
	}
	for _, last := range []string{"00", "80"} {
		for _, first := range []string{"00", "01", "02", "09"} {
			table = append(table, first+strings.Repeat("00", 30)+last)
		}
		table = append(table, "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b8"+last)
	}
	table = append(table, "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f11d7")
	refused := 0
	for _, text := range table {
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = auth.ParseOKP("OKP", parley.X25519, b64(raw), false)
		if worthless(raw) != (err != nil) {
			t.Errorf("%s: worthless %v, %v", text, worthless(raw), err)
		}
		if err != nil {
			refused++
		}
	}
	if refused != 14 {
		t.Errorf("%d spellings refused, want 14", refused)
	}
}

func TestGeneratedKeysAreAccepted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(r, "seed")
		signing := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		raw, err := auth.ParseOKP("OKP", parley.Ed25519, b64(signing), false)
		if err != nil || string(raw) != string(signing) {
			r.Fatalf("%x: %v", signing, err)
		}
		private, err := ecdh.X25519().NewPrivateKey(seed)
		if err != nil {
			r.Fatal(err)
		}
		encryption := private.PublicKey().Bytes()
		raw, err = auth.ParseOKP("OKP", parley.X25519, b64(encryption), false)
		if err != nil || string(raw) != string(encryption) {
			r.Fatalf("%x: %v", encryption, err)
		}
	})
}

// TestJOSEAcceptsAcceptedKeys: every Ed25519 JWK that is accepted here is also accepted
// by another strict library without our additional checks.
func TestJOSEAcceptsAcceptedKeys(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_-]{42,44}`),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 30, 34), b64),
		).Draw(r, "x")
		if _, err := auth.ParseOKP("OKP", parley.Ed25519, x, false); err != nil {
			return
		}
		document, err := json.Marshal(map[string]string{"kty": "OKP", "crv": "Ed25519", "x": x})
		if err != nil {
			r.Fatal(err)
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(document); err != nil || !key.Valid() {
			r.Fatalf("%s is accepted here: %v", x, err)
		}
	})
}

func TestVerificationWords(t *testing.T) {
	raw, err := auth.ParseOKP("OKP", parley.Ed25519, rfc8037, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := auth.VerificationWords(raw); got != "capable various jewel dress enforce" {
		t.Fatal(got)
	}
}
