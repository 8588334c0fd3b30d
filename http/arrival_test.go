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
		said   error
	}{
		{"", 0, 0, errTooLarge},
		{"", strangersBodyMax, 0, errTooLarge},
		{"", strangersBodyMax + 1, strangersBodyMax, errStranger},
		{"Bearer bad", parley.BodyBytesMax, strangersBodyMax, errStranger},
		{"Bearer bad", -1, strangersBodyMax, errStranger},
		{"", parley.BodyBytesMax + 1, 0, errTooLarge}, // which the engine refuses by itself
		{"Bearer good", -1, 0, errTooLarge},
		{"Bearer good", parley.BodyBytesMax, 0, errTooLarge},
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
		if got := s.tooLarge(&h); !errors.Is(got, c.said) {
			t.Errorf("%q announces %d: %v", c.bearer, c.length, got)
		}
	}
}
