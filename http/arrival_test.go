package http

import (
	"errors"
	"testing"

	"github.com/valyala/fasthttp"

	"parley"
)

// knows is an authenticator that knows one caller.
type knows struct{ header string }

func (k knows) Bearer(header []byte) (Caller, error) {
	if string(header) != k.header {
		return Caller{}, errors.New("a stranger")
	}
	return Caller{}, nil
}

func TestOnlyTheKnownMayAnnounceMuch(t *testing.T) {
	s := &Server{auth: knows{"Bearer good"}}
	for _, c := range []struct {
		bearer string
		length int
		bound  int
	}{
		{"", 0, 0},
		{"", strangersBodyMax, 0},
		{"", strangersBodyMax + 1, strangersBodyMax},
		{"Bearer bad", parley.BodyBytesMax, strangersBodyMax},
		{"Bearer bad", -1, strangersBodyMax},
		{"", parley.BodyBytesMax + 1, 0}, // which the engine refuses by itself
		{"Bearer good", -1, 0},
		{"Bearer good", parley.BodyBytesMax, 0},
	} {
		var h fasthttp.RequestHeader
		h.SetMethod("POST")
		h.SetContentLength(c.length)
		if c.bearer != "" {
			h.Set("Authorization", c.bearer)
		}
		if got := s.arriving(&h).MaxRequestBodySize; got != c.bound {
			t.Errorf("%q announces %d: bound %d, want %d", c.bearer, c.length, got, c.bound)
		}
	}
}
