package messages

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"parley/actors/record"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/rest"
	"parley/http/view"
)

// TestPageHasRoomForFirstMessage: a page has room for its first message, however long
// that is, and then for no other.
func TestPageHasRoomForFirstMessage(t *testing.T) {
	c := rest.NewCall(&fasthttp.RequestCtx{}, &rest.Host{}, &rest.Route{Access: rest.Read}, "")
	long := &record.Message{Content: content.Encode(nil, &content.Envelope{Metadata: []byte(`{"x":"` + strings.Repeat("x", parley.PageBytesMax) + `"}`)})}
	for what, page := range map[string][]*record.Message{"the first": {long}, "a second": {{}, long}, "beside it": {long, {}}} {
		room := pageBudget{call: c, viewer: view.Viewer{}}
		for i, r := range page {
			if fits, err := room.fits(r); err != nil || fits != (i == 0) {
				t.Errorf("%s, message %d: fits %v, %v", what, i+1, fits, err)
			}
		}
	}
}
