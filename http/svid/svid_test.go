package svid

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/http/svid/svidtest"
)

const audience = "https://parley.example/agents/x/verify-svid#n"

// open returns bundles with one domain.
func open(t *testing.T, domain string, content []byte, log *bytes.Buffer) (*Bundles, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle")
	write(t, path, content)
	if log == nil {
		log = &bytes.Buffer{}
	}
	b, err := Open(Options{Files: map[string]string{domain: path}, Clock: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return b, path
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused checks that a document is refused for a reason.
func refused(t *testing.T, what string, err error, reason string) {
	t.Helper()
	refusal := (*parley.Refusal)(nil)
	if !errors.As(err, &refusal) || refusal.Code != "svid_invalid" || !strings.Contains(refusal.Text, reason) {
		t.Errorf("%s: %v, want a refusal that says %q", what, err, reason)
	}
}

func TestJWT(t *testing.T) {
	now := time.Now()
	home, other := svidtest.New("home.example", now), svidtest.New("other.example", now)
	b, _ := open(t, "home.example", home.Bundle(), nil)
	claim := func(name string, value any) func(*svidtest.Token) {
		return func(x *svidtest.Token) { x.Claims[name] = value }
	}
	header := func(name string, value any) func(*svidtest.Token) {
		return func(x *svidtest.Token) { x.Header[name] = value }
	}
	for what, token := range map[string]string{
		"plain":                home.JWT("/web", audience),
		"one audience as text": home.JWT("/web", "", claim("aud", audience)),
		"several audiences":    home.JWT("/web", "", claim("aud", []string{"https://other.example", audience})),
		"no type":              home.JWT("/web", audience, func(x *svidtest.Token) { delete(x.Header, "typ") }),
	} {
		if found, err := b.JWT(token, audience, now); err != nil || found != (Identity{"spiffe://home.example/web", "home.example"}) {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
	for what, x := range map[string]struct{ token, reason string }{
		"expired an hour ago":   {home.JWT("/web", audience, claim("exp", now.Add(-time.Hour).Unix())), "expired"},
		"expired a second ago":  {home.JWT("/web", audience, claim("exp", now.Add(-time.Second).Unix())), "expired"},
		"not yet valid":         {home.JWT("/web", audience, claim("nbf", now.Add(time.Hour).Unix())), "not valid yet"},
		"issued later":          {home.JWT("/web", audience, claim("iat", now.Add(time.Hour).Unix())), "issued in the future"},
		"no expiry":             {home.JWT("/web", audience, func(x *svidtest.Token) { delete(x.Claims, "exp") }), "exp"},
		"another audience":      {home.JWT("/web", "https://parley.example/agents/x/verify-svid#other"), "audience"},
		"a prefix of it":        {home.JWT("/web", strings.TrimSuffix(audience, "n")), "audience"},
		"no audience":           {home.JWT("/web", "", claim("aud", []string{})), "audience"},
		"another trust domain":  {other.JWT("/web", audience), "no bundle"},
		"a key of another":      {home.JWT("/web", audience, func(x *svidtest.Token) { x.Key = other.Key }), "kid names"},
		"a kid of another":      {home.JWT("/web", audience, header("kid", other.Kid)), "no JWT authority"},
		"no kid":                {home.JWT("/web", audience, header("kid", "")), "key id"},
		"another's subject":     {other.JWT("/web", audience, claim("sub", "spiffe://home.example/web")), "no JWT authority"},
		"no subject":            {home.JWT("/web", audience, claim("sub", "")), "subject"},
		"a subject that is not": {home.JWT("/web", audience, claim("sub", "web")), "subject"},
		"a trust domain":        {home.JWT("", audience), "no path"},
		"no algorithm":          {home.JWT("/web", audience, header("alg", "none")), "parse"},
		"a symmetric one":       {home.JWT("/web", audience, header("alg", "HS256")), "parse"},
		"EdDSA":                 {home.JWT("/web", audience, header("alg", "EdDSA")), "parse"},
		"another type":          {home.JWT("/web", audience, header("typ", "at+jwt")), "type"},
		"nothing":               {"", "parse"},
		"not a token":           {"a.b.c", "parse"},
		"cut off":               {strings.TrimSuffix(home.JWT("/web", audience), "A")[:200], ""},
	} {
		_, err := b.JWT(x.token, audience, now)
		refused(t, what, err, x.reason)
	}
	only, _ := open(t, "home.example", home.PEM(), nil)
	_, err := only.JWT(home.JWT("/web", audience), audience, now)
	refused(t, "a bundle without keys for it", err, "no JWT authority")
	_, err = (*Bundles)(nil).JWT(home.JWT("/web", audience), audience, now)
	refused(t, "no bundles", err, "no bundle")
}

func TestX509(t *testing.T) {
	now, text := time.Now(), parley.SVIDText("svc", parley.AgentID{1}, "n")
	home, other := svidtest.New("home.example", now), svidtest.New("other.example", now)
	spiffe, _ := open(t, "home.example", home.Bundle(), nil)
	inPEM, _ := open(t, "home.example", home.PEM(), nil)
	key := svidtest.NewKey()
	uris := func(all ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.URIs = nil
			for _, text := range all {
				u, _ := url.Parse(text)
				c.URIs = append(c.URIs, u)
			}
		}
	}
	for _, b := range []*Bundles{spiffe, inPEM} {
		if found, err := b.X509(home.X509("/web", key.Public()), text, svidtest.Sign(key, text), now); err != nil || found != (Identity{"spiffe://home.example/web", "home.example"}) {
			t.Errorf("%v, %v", found, err)
		}
	}
	mixed := home.X509("/web", key.Public())
	mixed[1] = other.X509("/web", key.Public())[1]
	for what, x := range map[string]struct {
		chain  [][]byte
		by     *ecdsa.PrivateKey
		over   []byte
		reason string
	}{
		"expired":             {home.X509("/web", key.Public(), func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), key, text, "expired"},
		"not yet valid":       {home.X509("/web", key.Public(), func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }), key, text, "not yet valid"},
		"another domain":      {other.X509("/web", key.Public()), key, text, "trust domain"},
		"another's chain":     {other.X509("/web", key.Public(), uris("spiffe://home.example/web")), key, text, "unknown authority"},
		"a missing link":      {home.X509("/web", key.Public())[:1], key, text, "unknown authority"},
		"another link":        {mixed, key, text, "unknown authority"},
		"an authority":        {home.X509("/web", key.Public(), func(c *x509.Certificate) { c.IsCA = true }), key, text, "CA flag"},
		"signs certificates":  {home.X509("/web", key.Public(), func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }), key, text, "KeyCertSign"},
		"may not sign":        {home.X509("/web", key.Public(), func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }), key, text, "key usage"},
		"several ids":         {home.X509("/web", key.Public(), uris("spiffe://home.example/web", "spiffe://home.example/db")), key, text, "more than one URI"},
		"no id":               {home.X509("/web", key.Public(), uris()), key, text, "no URI"},
		"another scheme":      {home.X509("/web", key.Public(), uris("https://home.example/web")), key, text, "scheme"},
		"a trust domain":      {home.X509("", key.Public()), key, text, "no path"},
		"another key":         {home.X509("/web", key.Public()), svidtest.NewKey(), text, "signature"},
		"over another agent":  {home.X509("/web", key.Public()), key, parley.SVIDText("svc", parley.AgentID{2}, "n"), "signature"},
		"over another nonce":  {home.X509("/web", key.Public()), key, parley.SVIDText("svc", parley.AgentID{1}, "m"), "signature"},
		"over another server": {home.X509("/web", key.Public()), key, parley.SVIDText("acme", parley.AgentID{1}, "n"), "signature"},
		"nothing":             {nil, key, text, "empty"},
		"not a certificate":   {[][]byte{[]byte("x")}, key, text, "malformed"},
	} {
		_, err := spiffe.X509(x.chain, text, svidtest.Sign(x.by, x.over), now)
		refused(t, what, err, x.reason)
	}
	_, err := (*Bundles)(nil).X509(home.X509("/web", key.Public()), text, svidtest.Sign(key, text), now)
	refused(t, "no bundles", err, "trust domain")
}

// TestSignatures: keys of all kinds that SPIRE makes can sign, with all common hashes.
func TestSignatures(t *testing.T) {
	now, text := time.Now(), []byte("text")
	home := svidtest.New("home.example", now)
	b, _ := open(t, "home.example", home.Bundle(), nil)
	check := func(what string, key crypto.Signer, sign func() ([]byte, error)) {
		t.Helper()
		signature, err := sign()
		if err != nil {
			t.Fatal(err)
		}
		chain := home.X509("/web", key.Public())
		if _, err := b.X509(chain, text, signature, now); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for i := range signature {
			if i%16 == 0 {
				wrong := bytes.Clone(signature)
				wrong[i] ^= 1
				if _, err := b.X509(chain, text, wrong, now); err == nil {
					t.Errorf("%s: byte %d may have another value", what, i)
				}
			}
		}
	}
	digest := func(h crypto.Hash) []byte {
		hash := h.New()
		hash.Write(text)
		return hash.Sum(nil)
	}
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	check("Ed25519", edwards, func() ([]byte, error) { return edwards.Sign(rand.Reader, text, crypto.Hash(0)) })
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hashes {
		check("ECDSA "+h.String(), p384, func() ([]byte, error) { return p384.Sign(rand.Reader, digest(h), h) })
		check("PKCS #1 "+h.String(), long, func() ([]byte, error) { return long.Sign(rand.Reader, digest(h), h) })
		check("PSS "+h.String(), long, func() ([]byte, error) {
			return long.Sign(rand.Reader, digest(h), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: h})
		})
	}
}

// TestLongKeys: the server does not calculate with an RSA key of any length that a client
// sends.
func TestLongKeys(t *testing.T) {
	now, text := time.Now(), []byte("text")
	home := svidtest.New("home.example", now)
	b, _ := open(t, "home.example", home.Bundle(), nil)
	long := &rsa.PublicKey{E: 65537}
	long.N = svidtest.Odd(rsaBitsMax + 1)
	_, err := b.X509(home.X509("/web", long), text, make([]byte, 1025), now)
	refused(t, "a long key", err, "longer than 8192")
	long.N = svidtest.Odd(rsaBitsMax)
	_, err = b.X509(home.X509("/web", long), text, make([]byte, 1024), now)
	refused(t, "the longest", err, "signature")
}

// TestReload: a bundle that changes on disk counts from the next document on. A file that
// cannot be used leaves the former bundle in force, and is logged once.
func TestReload(t *testing.T) {
	now, log := time.Now(), &bytes.Buffer{}
	before, after := svidtest.New("home.example", now), svidtest.New("home.example", now)
	b, path := open(t, "home.example", before.Bundle(), log)
	trusts := func(what string, old, young bool) {
		t.Helper()
		for a, want := range map[*svidtest.Authority]bool{before: old, after: young} {
			if _, err := b.JWT(a.JWT("/web", audience), audience, now); (err == nil) != want {
				t.Errorf("%s: %v, want it valid: %v", what, err, want)
			}
		}
	}
	// In place, with a file of the same length.
	trusts("at first", true, false)
	write(t, path, after.Bundle())
	trusts("written in place", false, true)
	write(t, path, before.Bundle())
	trusts("and back", true, false)

	// Long ago, so that the file is not read each time.
	past := now.Add(-time.Hour)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	trusts("with an old file", true, false)
	for _, one := range b.domains {
		if one.seen == nil {
			t.Error("a file that did not change is read each time")
		}
	}
	write(t, path+".new", after.Bundle())
	if err := os.Chtimes(path+".new", past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	trusts("replaced by another file of the same age", false, true)

	log.Reset()
	for what, content := range map[string][]byte{"cut off": after.Bundle()[:100], "empty": nil, "of no use": []byte(`{"keys":[]}`), "text": []byte("text")} {
		write(t, path, content)
		trusts(what, false, true)
		trusts(what+", again", false, true)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	trusts("removed", false, true)
	if n := strings.Count(log.String(), "level=ERROR"); n != 5 {
		t.Errorf("%d failures were logged, want 5:\n%s", n, log)
	}
	write(t, path, before.Bundle())
	trusts("there again", true, false)
	if !strings.Contains(log.String(), "read again") {
		t.Errorf("a new bundle was not logged:\n%s", log)
	}
}

func TestOpen(t *testing.T) {
	a := svidtest.New("home.example", time.Now())
	path := filepath.Join(t.TempDir(), "bundle")
	at := func(domain, path string) error {
		_, err := Open(Options{Files: map[string]string{domain: path}, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
		return err
	}
	write(t, path, a.Bundle())
	if err := at("home.example", path); err != nil {
		t.Error(err)
	}
	for _, domain := range []string{"", "Home Example", "spiffe://", "a/b"} {
		if err := at(domain, path); err == nil || !strings.Contains(err.Error(), "trust domain") {
			t.Errorf("domain %q: %v", domain, err)
		}
	}
	if err := at("home.example", path+"x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	foreign := bytes.ReplaceAll(bytes.ReplaceAll(a.Bundle(), []byte("x509-svid"), []byte("sig")), []byte("jwt-svid"), []byte("sig"))
	for what, content := range map[string][]byte{"empty": nil, "another key set": foreign, "no keys": []byte(`{"keys":[]}`), "not JSON": []byte("{"), "text": []byte("text")} {
		write(t, path, content)
		if err := at("home.example", path); err == nil || !strings.Contains(err.Error(), "home.example") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := Open(Options{}); err != nil || !b.Empty() || !(*Bundles)(nil).Empty() {
		t.Errorf("no files: %v", err)
	}
}
