package judges

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testDomain is the domain of handles. Its hosts exist only for these tests.
const testDomain = "parley.test"

// TestIdentityJudges: strangers who know only an agent's handle find its documents over
// https on the host of its organization.
func TestIdentityJudges(t *testing.T) {
	needNode(t)
	front := startFront(t)
	base, _ := serveBinary(t, "--dev=false", "--pow-bits", "8", "--domain", front.domain)
	front.forwardTo(t, base)
	t.Log(nodeWith(t, []string{"NODE_EXTRA_CA_CERTS=" + front.certificate}, "", "identity.mjs", base, front.domain))
}

// TestVerifyKeysByDomain: the command resolves a handle as a stranger does, and compares
// what it finds with the keys of another server.
func TestVerifyKeysByDomain(t *testing.T) {
	front := startFront(t)
	base, binary := serveBinary(t, "--dev=false", "--pow-bits", "8", "--domain", front.domain)
	front.forwardTo(t, base)
	home := t.TempDir()
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = home
		cmd.Env = append(withoutSettings(os.Environ()), "SSL_CERT_FILE="+front.certificate, "HTTPS_PROXY="+front.tunnel, "NO_PROXY=")
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("register", "acme", "--email", "ops@acme.example", "--url", base, "--profile", "acme"); code != 0 {
		t.Fatal(out)
	}
	created, code := run("agent", "create", "bob", "--profile", "acme")
	if code != 0 {
		t.Fatal(created)
	}
	_, words, _ := strings.Cut(created, "words ")
	words, _, _ = strings.Cut(words, "\n")
	handle, host := "bob@acme."+front.domain, "https://acme."+front.domain
	for _, where := range [][]string{{"--profile", "acme"}, {"--url", base, "--profile", "none"}, {"--profile", "none"}} {
		out, code := run(append([]string{"verify-keys", handle, "--by-domain"}, where...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s", where, code, out)
		}
		wantIn(t, out, strings.TrimSpace(words), "agree with the keys (from "+host+")", "did:web:acme."+strings.Replace(front.domain, ":", "%3A", 1)+":agents:bob")
	}

	// The host comes to be another server's, with another agent of the same handle.
	other, _ := serveBinary(t, "--dev=false", "--pow-bits", "8", "--domain", front.domain)
	for _, args := range [][]string{{"register", "acme", "--email", "ops@acme.example", "--url", other, "--profile", "twin"}, {"agent", "create", "bob", "--profile", "twin"}} {
		if out, code := run(args...); code != 0 {
			t.Fatal(out)
		}
	}
	front.forwardTo(t, other)
	out, code := run("verify-keys", handle, "--by-domain", "--profile", "acme")
	wantIn(t, out, strings.TrimSpace(words), "another key for authentication", "another key for keyAgreement", "WebFinger does not link to", "do not trust")
	if code != 10 {
		t.Errorf("exit code %d, want 10", code)
	}
	if out, code := run("verify-keys", "bob@acme.elsewhere.test", "--by-domain", "--profile", "none"); code == 0 {
		t.Errorf("an unknown host: %s", out)
	}
}

// front is the https server of all hosts below a domain, as a reverse proxy in front of
// the service would be.
type front struct {
	// domain is the domain with the port of the front.
	domain string
	// certificate is the file of the certificate that clients must trust.
	certificate string
	// tunnel is an HTTP proxy that connects to the front, whatever host is named.
	tunnel string

	mu     sync.Mutex
	target *url.URL
}

func startFront(t *testing.T) *front {
	t.Helper()
	f := &front{certificate: filepath.Join(t.TempDir(), "front.pem")}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		f.mu.Lock()
		defer f.mu.Unlock()
		r.SetURL(f.target)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewUnstartedServer(proxy)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{newCertificate(t, f.certificate)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	f.domain = testDomain + ":" + port
	tunnel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !strings.HasSuffix(r.Host, "."+f.domain) {
			http.Error(w, "no such host", http.StatusBadGateway)
			return
		}
		connect(w, address)
	}))
	t.Cleanup(tunnel.Close)
	f.tunnel = tunnel.URL
	return f
}

// forwardTo chooses the server behind the front.
func (f *front) forwardTo(t *testing.T, base string) {
	t.Helper()
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
}

// connect makes the client's connection one to an address.
func connect(w http.ResponseWriter, address string) {
	out, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	w.WriteHeader(http.StatusOK)
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	go func() {
		_, _ = io.Copy(out, in) // an end of either side ends both
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// newCertificate makes a certificate for all hosts below the domain and writes it to a
// file.
func newCertificate(t *testing.T, path string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"*." + testDomain}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
