package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"parley/client/api"
	"parley/client/parley"
)

// ErrIncompleteExport means that an export was cut off, or is not what the server sent.
var ErrIncompleteExport = errors.New("the export is not complete")

// Exported describes a complete export.
type Exported struct {
	// Records is the number of lines, Bytes their length.
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
	// SHA256 is the hash of the lines, which the server computed too.
	SHA256 string `json:"sha256"`
}

// Export writes everything that belongs to the organization to w, as lines of JSON. It
// returns ErrIncompleteExport unless number and hash of the lines are those that the
// server has sent after them: what was written must then not be used. ctx alone bounds
// how long it takes. The server allows one export an hour, so a failed one is not
// repeated.
func (o Org) Export(ctx context.Context, id parley.OrgID, w io.Writer) (*Exported, error) {
	c := o.s
	k := c.call(get("/orgs/{id}/export"), api.GetExport{ID: id})
	k.header.Set("Accept", "application/x-ndjson")
	req, _, err := c.request(ctx, k)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.method, k.path, unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax))
		return nil, readError(resp, body)
	}
	counted := &recordCounter{}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(w, sum, counted), resp.Body, make([]byte, 256<<10))
	switch announced, digest := resp.Trailer.Get(c.ownHeader("X-Svc-Export-Records")), "sha-256=:"+base64.StdEncoding.EncodeToString(sum.Sum(nil))+":"; {
	case err != nil && counted.records == 0 && n == 0:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: after %d records: %w", ErrIncompleteExport, counted.records, err)
	case announced != strconv.Itoa(counted.records):
		return nil, fmt.Errorf("%w: it has %d records, the server counted %q", ErrIncompleteExport, counted.records, announced)
	case resp.Trailer.Get("Repr-Digest") != digest:
		return nil, fmt.Errorf("%w: its digest is %s, the server's is %q", ErrIncompleteExport, digest, resp.Trailer.Get("Repr-Digest"))
	}
	return &Exported{Records: counted.records, Bytes: n, SHA256: fmt.Sprintf("%x", sum.Sum(nil))}, nil
}

// recordCounter counts the records, which are lines, that are written to it.
type recordCounter struct{ records int }

func (l *recordCounter) Write(p []byte) (int, error) {
	l.records += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}
