package httpserver

import (
	"strconv"
	"strings"
	"testing"
)

// TestGuardCorpus sends requests that two servers in a row might parse differently.
// Each is refused with 400 and closes the connection, so that nothing after it is
// parsed as a second request.
func TestGuardCorpus(t *testing.T) {
	s := newToyTCP(t)
	const tail = "GET /things/public HTTP/1.1\r\nHost: toy\r\n\r\n"
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: toy\r\n\r\n" }
	post := func(headers, body string) string {
		return "POST /token HTTP/1.1\r\nHost: toy\r\n" + headers + "\r\n" + body
	}
	for name, request := range map[string]string{
		"length and chunks":       post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
		"chunks and length":       post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
		"two lengths":             post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"),
		"two differing lengths":   post("Content-Length: 2\r\nContent-Length: 3\r\n", "{}"),
		"list of lengths":         post("Content-Length: 2, 2\r\n", "{}"),
		"signed length":           post("Content-Length: +2\r\n", "{}"),
		"negative length":         post("Content-Length: -2\r\n", "{}"),
		"hexadecimal length":      post("Content-Length: 0x2\r\n", "{}"),
		"two encodings":           post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
		"unknown encoding":        post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
		"list of encodings":       post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
		"encoding in 1.0":         "POST /token HTTP/1.0\r\nHost: toy\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before colon":      post("Content-Length : 2\r\n", "{}"),
		"bad chunk size":          post("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"),
		"folded line":             post("X-A: b\r\n c\r\nContent-Length: 2\r\n", "{}"),
		"folded by tab":           post("X-A: b\r\n\tc\r\nContent-Length: 2\r\n", "{}"),
		"folded length":           post("Content-Length:\r\n 2\r\n", "{}"),
		"NUL in a header":         post("X-A: b\x00c\r\n", ""),
		"CR in a header":          post("X-A: b\rc\r\n", ""),
		"absolute target":         get("http://evil/things/public"),
		"absolute target, https":  get("https://toy/things/public"),
		"authority target":        "CONNECT toy:80 HTTP/1.1\r\nHost: toy\r\n\r\n",
		"asterisk without reason": get("*"),
		"no slash":                get("things/public"),
		"dots":                    get("/things/../token"),
		"encoded dots":            get("/things/%2e%2e/token"),
		"half encoded dots":       get("/things/.%2E/token"),
		"dots at the end":         get("/things/.."),
		"one dot":                 get("/./things/public"),
		"double slash":            get("//things/public"),
		"double slash inside":     get("/things//public"),
		"encoded backslash":       get("/things%5cpublic"),
		"broken encoding":         get("/things/%0x00"),
		"cut encoding":            get("/things/%4"),
		"backslash":               get("/things\\public"),
		"fragment":                get("/things/public#a"),
		"no host":                 "GET /things/public HTTP/1.1\r\n\r\n",
		"empty host":              "GET /things/public HTTP/1.1\r\nHost:\r\n\r\n",
		"two hosts":               "GET /things/public HTTP/1.1\r\nHost: toy\r\nHost: evil\r\n\r\n",
		"two tokens":              "GET /things/public HTTP/1.1\r\nHost: toy\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n",
		"two idempotency keys":    post("Idempotency-Key: a\r\nIdempotency-Key: b\r\n", ""),
		"idempotency key behind":  post("Transfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n", "0\r\nIdempotency-Key: a\r\n\r\n"),
		"key behind, unannounced": post("Transfer-Encoding: chunked\r\n", "0\r\nidempotency-key: a\r\n\r\n"),
		"identity":                post("Transfer-Encoding: identity\r\n", ""),
		"bare line feed":          post("X-A: b\nContent-Length: 2\r\n", "{}"),
		"space in a name":         post("X A: b\r\n", ""),
		"two agents":              post("X-Svc-Agent: a\r\nx-svc-agent: b\r\n", ""),
		"host with a user":        "GET /things/public HTTP/1.1\r\nHost: user@toy\r\n\r\n",
		"host with a path":        "GET /things/public HTTP/1.1\r\nHost: toy/x\r\n\r\n",
		"list of hosts":           "GET /things/public HTTP/1.1\r\nHost: toy, evil\r\n\r\n",
		"two media types":         post("Content-Type: application/json\r\nContent-Type: text/plain\r\n", ""),
		"HTTP/2 preface":          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"PRI as HTTP/1.1":         "PRI /things/public HTTP/1.1\r\nHost: toy\r\n\r\n",
		"HTTP/1.2":                "GET /things/public HTTP/1.2\r\nHost: toy\r\n\r\n",
		"HTTP/0.9":                "GET /things/public\r\n\r\n",
		"two spaces":              "GET  /things/public HTTP/1.1\r\nHost: toy\r\n\r\n",
		"space in target":         "GET /things/public x HTTP/1.1\r\nHost: toy\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			said := s.say(t, request+tail)
			if !strings.HasPrefix(said, "HTTP/1.1 400 ") || !strings.Contains(said, "Connection: close") ||
				!strings.Contains(said, `"error":"validation_error","code":"validation_error","request_id":"`) || !strings.Contains(said, "X-Request-Id: ") {
				t.Errorf("received:\n%s", said)
			}
			if strings.Count(said, "HTTP/1.1 ") != 1 {
				t.Errorf("a second request was served:\n%s", said)
			}
		})
	}
}

// TestGuardAcceptsPlainRequests: the control: plain requests are served.
func TestGuardAcceptsPlainRequests(t *testing.T) {
	s := newToyTCP(t)
	for name, request := range map[string]string{
		"plain":                 "GET /things/public HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n",
		"version 1.0":           "GET /things/public HTTP/1.0\r\nHost: toy\r\n\r\n",
		"no host in 1.0":        "GET /things/public HTTP/1.0\r\n\r\n",
		"probe with a question": "GET /readyz?leads=true HTTP/1.0\r\n\r\n",
		"odd query":             "GET /things/public?next=//a/../b%2f%00%5c\\ HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n",
		"encoded letters":       "GET /fail/cre%61ted HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n",
		"dots in a name":        "GET /fail/a..b HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n",
		"three dots":            "GET /fail/... HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n",
		"repeated plain header": "GET /things/public HTTP/1.1\r\nHost: toy\r\nAccept: a\r\nAccept: b\r\nConnection: close\r\n\r\n",
		"chunks":                "POST /token HTTP/1.1\r\nHost: toy\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nAuthorization: Basic good\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		said := s.say(t, request)
		if !strings.HasPrefix(said, "HTTP/1.1 2") && !strings.HasPrefix(said, "HTTP/1.1 410") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestEncodedSlash: an encoded slash or NUL separates nothing and reaches no handler, whatever a
// proxy made of it.
func TestEncodedSlash(t *testing.T) {
	s := newToyTCP(t)
	for _, path := range []string{"/things%2fpublic", "/things%2Fpublic", "/fail/a%2Fb", "/fail/a%00", "/fail/..%2fthings"} {
		said := s.say(t, "GET "+path+" HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(said, "HTTP/1.1 404 ") {
			t.Errorf("%s: %s", path, said)
		}
	}
}

// TestBodyOfGetIsRead: the body of a GET, which no handler reads, is not parsed as the
// next request.
func TestBodyOfGetIsRead(t *testing.T) {
	s := newToyTCP(t)
	const hidden = "GET /fail/gone HTTP/1.1\r\nHost: toy\r\n\r\n"
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		said := s.say(t, method+" /things/public HTTP/1.1\r\nHost: toy\r\nContent-Length: "+strconv.Itoa(len(hidden))+"\r\n\r\n"+hidden+
			"GET /things/public HTTP/1.1\r\nHost: toy\r\nConnection: close\r\n\r\n")
		if strings.Contains(said, "410 Gone") || !strings.HasSuffix(said, `{"a":1}`) {
			t.Errorf("%s: %s", method, said)
		}
	}
}
