package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestCompressedDocuments: a public document above 8 KiB has a plain and a compressed form. Each has
// its own tag, and a client that has it gets no body.
func TestCompressedDocuments(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("small")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		for _, path := range []string{"/openapi.json", "/docs/LICENSE", "/docs/swagger-ui-bundle.js"} {
			plain := s.Call(t, "", "GET", path, nil, "Accept-Encoding", "gzip;q=0, *").Want(200)
			packed := s.Call(t, "", "GET", path, nil, "Accept-Encoding", "br, gzip").Want(200)
			r, err := gzip.NewReader(bytes.NewReader(packed.Raw))
			if err != nil {
				packed.Fatalf("%v", err)
			}
			if inside, err := io.ReadAll(r); err != nil || !bytes.Equal(inside, plain.Raw) || plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("%s: the forms differ: %v %v %v", path, err, plain.Header, packed.Header)
			}
			if plain.Header.Get("ETag") == packed.Header.Get("ETag") || len(packed.Raw)*2 > len(plain.Raw) {
				t.Errorf("%s: tag %s, %d of %d bytes", path, packed.Header.Get("ETag"), len(packed.Raw), len(plain.Raw))
			}
			for accept, form := range map[string]*kit.Answer{"identity": plain, "*": packed} {
				a := s.Call(t, "", "GET", path, nil, "Accept-Encoding", accept, "If-None-Match", form.Header.Get("ETag")).Want(304)
				head := s.Call(t, "", "HEAD", path, nil, "Accept-Encoding", accept).Want(200)
				if a.Header.Get("Vary") != "Accept-Encoding" || head.Header.Get("ETag") != form.Header.Get("ETag") || head.Header.Get("Content-Length") != strconv.Itoa(len(form.Raw)) {
					t.Errorf("%s as %s: %v, HEAD %v", path, accept, a.Header, head.Header)
				}
			}
		}
		for _, path := range []string{"/.well-known/jwks.json", g.Path("/card")} {
			if a := s.Call(t, "", "GET", path, nil, "Accept-Encoding", "gzip").Want(200); a.Header.Get("Content-Encoding") != "" {
				a.Errorf("a small document is compressed")
			}
		}
	})
}
