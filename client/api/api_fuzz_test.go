package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// FuzzTime: a time that is accepted can be encoded. Its wire form has the one layout,
// has the same microsecond, and is read as the same time. All datetimes of requests,
// such as `since`, are read this way.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{
		"2026-11-21T10:00:00.123456Z", "2026-11-21 10:00:00 02:00", "2026-11-21T10:00:00+02:00", "20261121T100000-0930", "2026-W47-6T10Z", "2026W476",
		"2026-325", "2026325T24", "2026-11-21T24:00:00", "2026-11-21T23:59:60Z", "2026-11-21T10:00:00,5", "2026-11-21T10.5", "2026-11-21",
		"0000-01-01T00:00+23:59", "0000-01-01", "9999-12-31T24:00", "9999-12-31T23:59:59.9999999-23:59", "9999-W52-7", "2026-02-29", "2026-13-01", "2026-00-00",
		"2026-11-21T", "2026-11-21T25:00", "2026-11-21T10:00:00+24:00", "2026-11-21T1:00", "-2026-11-21", "+2026-11-21", "2026-11-21T10:00:00.", "yesterday", "", " ", "\x00",
		"1e9", "1732183200", "2026-11-21T10:00:00Z ", strings.Repeat("1", 65), "２０２６-11-21",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := api.ParseTime(text)
		if err != nil {
			if !errors.Is(err, api.ErrNotTime) || !read.IsZero() {
				t.Fatalf("%q: %v, %v", text, read, err)
			}
			return
		}
		told, err := read.MarshalText()
		if err != nil {
			t.Fatalf("%q is accepted, but cannot be encoded: %v", text, err)
		}
		if len(told) != len("2026-11-21T10:00:00.123456Z") {
			t.Fatalf("%q is encoded as %q", text, told)
		}
		again, err := api.ParseTime(string(told))
		if err != nil || !again.Equal(read.Truncate(time.Microsecond)) {
			t.Fatalf("%q is %v, encoded as %q and then read as %v, %v", text, read, told, again, err)
		}
		if std, err := time.Parse(time.RFC3339Nano, string(told)); err != nil || !std.Equal(again.Time) {
			t.Fatalf("%q is encoded as %q, which the standard library reads as %v, %v", text, told, std, err)
		}
	})
}

// FuzzJWK: a key that is read from JSON and accepted by Raw is the one encoding of its
// 32 bytes. A key with a private half is never accepted.
func FuzzJWK(f *testing.F) {
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	for _, seed := range []string{
		`{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}`, `{"kty":"OKP","crv":"X25519","x":"` + x + `","kid":"k","use":"sig","alg":"EdDSA","key_ops":["verify"],"ext":true}`,
		`{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":"` + x + `"}`, `{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":null}`, `{"KTY":"OKP","CRV":"Ed25519","X":"` + x + `","D":""}`,
		`{"kty":"OKP","crv":"Ed25519","x":"` + x[:42] + `p"}`, `{"kty":"OKP","crv":"Ed25519","x":"` + x + `="}`, `{"kty":"OKP","crv":"Ed25519","x":"` + x[:42] + `\n"}`,
		`{"kty":"EC","crv":"P-256","x":"` + x + `"}`, `{"kty":"RSA","n":"AQAB","e":"AQAB"}`, `{"x":5}`, `{"kty":["OKP"]}`, `[]`, `null`, `""`, `{`, `{"kty":"OKP","kty":"OKP"}`, "{\"x\":\"\xff\"}", `{"x":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var key api.JWK
		if err := json.Unmarshal(text, &key); err != nil {
			return
		}
		for _, curve := range []string{parley.Ed25519, parley.X25519} {
			raw, err := key.Raw(curve)
			if err != nil {
				if raw != nil || !errors.Is(err, api.ErrPrivateKey) && !errors.Is(err, api.ErrKeyKind) && !errors.Is(err, api.ErrKeyBytes) {
					t.Fatalf("%s: %x, %v", text, raw, err)
				}
				continue
			}
			made := api.NewJWK(curve, raw)
			if key.Private() || made.X != key.X || made.Curve != key.Curve || made.KeyType != key.KeyType || len(raw) != 32 {
				t.Fatalf("%s is read as %x, which is %+v", text, raw, made)
			}
			told, err := json.Marshal(made)
			if err != nil {
				t.Fatal(err)
			}
			var again api.JWK
			if err := json.Unmarshal(told, &again); err != nil || again != made {
				t.Fatalf("%s is read as %+v, %v", told, again, err)
			}
		}
	})
}
