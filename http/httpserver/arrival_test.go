package httpserver

import (
	"errors"
	"testing"

	"github.com/valyala/fasthttp"

	"parley/client/parley"
	"parley/http/rest"
)

// knows is an authenticator that accepts one caller.
type knows struct{ header string }

func (k knows) Bearer(header []byte) (rest.Caller, error) {
	if string(header) != k.header {
		return rest.Caller{}, errors.New("a stranger")
	}
	return rest.Caller{}, nil
}

func TestLargeBodiesNeedAValidToken(t *testing.T) {
	s := &Server{bodies: bodies{auth: knows{"Bearer good"}}}
	for _, c := range []struct {
		bearer string
		length int
		may    bool
	}{
		{"", 0, true},
		{"", anonymousBodyMax, true},
		{"", anonymousBodyMax + 1, false},
		{"Bearer bad", parley.BodyBytesMax, false},
		{"Bearer bad", -1, true}, // checked as it arrives
		{"Bearer good", -1, true},
		{"Bearer good", parley.BodyBytesMax, true},
		{"Bearer good", parley.BodyBytesMax + 1, false},
		{"Bearer good", chunkedLength, false},
		{"Bearer good", chunkedLength + 1, false},
	} {
		var h fasthttp.RequestHeader
		h.SetMethod("POST")
		h.SetContentLength(c.length)
		if c.bearer != "" {
			h.Set("Authorization", c.bearer)
		}
		s.arriving(&h)
		if refused := len(h.Peek("Expect")) > 0; refused == c.may {
			t.Errorf("%q with a Content-Length of %d: may arrive: %v", c.bearer, c.length, c.may)
		}
	}
}
