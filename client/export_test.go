package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
)

// TestExportIsCompared: an export counts only if its number and digest are the server's.
func TestExportIsCompared(t *testing.T) {
	const lines = "{\"type\":\"org\",\"data\":{}}\n{\"type\":\"user\",\"data\":{}}\n"
	sum := sha256.Sum256([]byte(lines))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for name, x := range map[string]struct {
		body, records, digest string
		cut, complete         bool
	}{
		"as it was sent":       {lines, "2", digest, false, true},
		"a line is missing":    {lines[:len(lines)/2], "2", digest, false, false},
		"another byte":         {strings.Replace(lines, "user", "uses", 1), "2", digest, false, false},
		"another number":       {lines, "3", digest, false, false},
		"no trailers":          {lines, "", "", false, false},
		"cut off in the lines": {lines, "2", digest, true, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Svc-Export-Records, Repr-Digest")
			_, _ = fmt.Fprint(w, x.body)
			if x.cut {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			if x.records != "" {
				w.Header().Set("X-Svc-Export-Records", x.records)
				w.Header().Set("Repr-Digest", x.digest)
			}
		}))
		c, err := New(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		c.tokens = &tokens{token: "t", renewAt: time.Now().Add(time.Hour)}
		var out bytes.Buffer
		got, err := c.Org.Export(context.Background(), parley.OrgID{1}, &out)
		if x.complete && (err != nil || got.Records != 2 || got.Bytes != int64(len(lines)) || out.String() != lines || got.SHA256 != fmt.Sprintf("%x", sum)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if !x.complete && !errors.Is(err, ErrIncompleteExport) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		c.Close()
		server.Close()
	}
}
