package rest

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestChoosesPacked(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "x-gzip": true, "deflate, br": false, "gzip, deflate, br": true, "br;q=1, gzip;q=0.5": true, "*": true, "deflate,*;q=0.1": true,
		"gzip;q=0": false, "gzip; q=0.000": false, "gzip;q=0, *": false, "*;q=0": false, "*;q=0, gzip": true, "identity": false, "gzip, identity": true,
		"gzip;q=0.5, identity": false, "gzip;q=0.5, identity;q=0.5": true, "gzip;q=0.001": true, "gzipped": false, "notgzip": false,
		"gzip;q=many": false, "gzip;q=2": false, "gzip;q=-1": false, "gzip;q=NaN": false, "gzip ; Q=1": true, ",,": false,
	} {
		var h fasthttp.RequestHeader
		if line != "" {
			h.Set("Accept-Encoding", line)
		}
		if got := choosesPacked(&h); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	var h fasthttp.RequestHeader
	h.Add("Accept-Encoding", "br")
	h.Add("Accept-Encoding", "gzip")
	if !choosesPacked(&h) {
		t.Error("only the first line is read")
	}
}

// TestPack: many at once, each is what it was.
func TestPack(t *testing.T) {
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			body := bytes.Repeat([]byte{byte(n), 'x'}, 20_000)
			packed := pack(body)
			if plain, err := inflate(packed); err != nil || !bytes.Equal(plain, body) || len(packed) > len(body)/10 {
				t.Errorf("%d bytes: %v", len(packed), err)
			}
		})
	}
	all.Wait()
}

func TestAddVary(t *testing.T) {
	var h fasthttp.ResponseHeader
	for _, name := range []string{"Origin", "Accept", "Accept-Encoding", "Accept", "Origin"} {
		AddVary(&h, name)
	}
	if got := string(h.Peek("Vary")); got != "Origin, Accept, Accept-Encoding" {
		t.Errorf("%q", got)
	}
}

func TestNewFixed(t *testing.T) {
	large := []byte(strings.Repeat("large ", packedAbove/4))
	for name, c := range map[string]struct {
		of     *Fixed
		packed bool
		plain  string
	}{
		"small":       {NewFixed("a/b", large[:packedAbove], nil), false, string(large[:packedAbove])},
		"large":       {NewFixed("a/b", large[:packedAbove+1], nil), true, string(large[:packedAbove+1])},
		"both":        {NewFixed("a/b", []byte("x"), []byte("y")), true, "x"},
		"packed only": {NewFixed("a/b", nil, pack([]byte("inside"))), true, "inside"},
	} {
		plain, err := c.of.plain()
		if err != nil || string(plain) != c.plain || (c.of.packed != nil) != c.packed {
			t.Errorf("%s: %d bytes, packed %v, %v", name, len(plain), c.of.packed != nil, err)
		}
	}
}
