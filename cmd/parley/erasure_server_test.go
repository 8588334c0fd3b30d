package main

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/program"
	"parley/http/svid/svidtest"
)

type object = map[string]any

// A liveServer is a server that runs in this process.
type liveServer struct {
	t           *testing.T
	base, admin string
	stop        func()
}

// announced gets what a server writes to standard output.
type announced chan string

func (a announced) Write(b []byte) (int, error) {
	a <- string(b)
	return len(b), nil
}

// lockedLog is the log of a server.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// workloadDomain is the trust domain whose workload identities can be proven.
const workloadDomain = "workloads.example"

var workloadAuthority = sync.OnceValue(func() *svidtest.Authority { return svidtest.New(workloadDomain, time.Now()) })

// serveData runs a server on a data directory until stop is called.
func serveData(t *testing.T, data, journals string) *liveServer {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := free.Addr().String()
	_ = free.Close()
	bundle := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(bundle, workloadAuthority().Bundle(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, log, exited := make(announced, 8), &lockedLog{}, make(chan int, 1)
	go func() {
		args := []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", admin, "--data", data, "--journals", journals, "--base-url", "http://parley.example"} // tokens are valid for one address
		args = append(args, "--trust-bundle", workloadDomain+"="+bundle)
		exited <- run(ctx, func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: out, RawErr: log})
	}()
	s := &liveServer{t: t, admin: "http://" + admin}
	s.stop = sync.OnceFunc(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if code := <-exited; code != 0 {
			t.Errorf("the server exits %d:\n%s", code, log)
		}
	})
	t.Cleanup(s.stop)
	select {
	case line := <-out:
		s.base = strings.TrimSpace(strings.TrimPrefix(line, "parley: listening on "))
	case <-time.After(15 * time.Second):
		t.Fatalf("the server does not listen:\n%s", log)
	}
	return s
}

// call makes a request. A body that is a string is a form.
func (s *liveServer) call(authorization, method, path string, body any, headers ...string) (status int, answer object, raw []byte) {
	s.t.Helper()
	text, form := body.(string)
	reader, kind := io.Reader(strings.NewReader(text)), "application/x-www-form-urlencoded"
	if body != nil && !form {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		reader, kind = bytes.NewReader(b), "application/json"
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if raw, err = io.ReadAll(response.Body); err != nil {
		s.t.Fatal(err)
	}
	_ = json.Unmarshal(raw, &answer) // a list stays raw
	return response.StatusCode, answer, raw
}

// streamUntil reads the stream of an agent from its beginning until a text has arrived.
func (s *liveServer) streamUntil(token, agent, text string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", s.base+"/agents/"+agent+"/stream", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", token)
	request.Header.Set("Last-Event-ID", parley.AnyID{}.String())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var read strings.Builder
	for buffer := make([]byte, 64<<10); !strings.Contains(read.String(), text); {
		n, err := response.Body.Read(buffer)
		read.Write(buffer[:n])
		if err != nil {
			s.t.Fatalf("the stream ends before %s: %v\n%s", text, err, read.String())
		}
	}
	return read.String()
}

// canaryText returns a unique text that is valid in every field: a slug, a name, base64.
func canaryText() string {
	b := make([]byte, 10)
	_, _ = rand.Read(b)
	return "cn" + hex.EncodeToString(b)
}

// solution returns a nonce that begins with a text and solves a challenge.
func solution(challenge object, begin string) string {
	text, difficulty := challenge["challenge"].(string), int(challenge["difficulty"].(float64))
	for n := 0; ; n++ {
		nonce := begin + strconv.Itoa(n)
		if sum := sha256.Sum256([]byte(text + ":" + nonce)); leadingZeros(sum[:]) >= difficulty {
			return nonce
		}
	}
}

func leadingZeros(sum []byte) (zeros int) {
	for _, b := range sum {
		for bit := 7; bit >= 0; bit-- {
			if b>>bit&1 == 1 {
				return zeros
			}
			zeros++
		}
	}
	return zeros
}

// keyPair is the keys of an agent.
type keyPair struct {
	sign ed25519.PrivateKey
	seal *ecdh.PrivateKey
}

func newKeyPair(t *testing.T) (k keyPair) {
	t.Helper()
	var err error
	if _, k.sign, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if k.seal, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k keyPair) signing() []byte    { return k.sign.Public().(ed25519.PublicKey) }
func (k keyPair) encryption() []byte { return k.seal.PublicKey().Bytes() }

// bind returns the text that binds the keys to an agent, and its instant.
func (k keyPair) bind(t *testing.T, agent, handle string) (text []byte, signedAt string) {
	t.Helper()
	id, err := parley.ParseID[parley.AgentID](agent)
	if err != nil {
		t.Fatal(err)
	}
	signedAt = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	return parley.KeyBindingText("svc", id, handle, parley.Thumbprint("Ed25519", k.signing()), parley.Thumbprint("X25519", k.encryption()), signedAt), signedAt
}

func publicKey(curve string, raw []byte) object {
	return object{"kty": "OKP", "crv": curve, "x": inBase64(raw)}
}

func inBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
