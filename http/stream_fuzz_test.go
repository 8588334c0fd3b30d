package http

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// FuzzLastEventID resumes a stream with any Last-Event-ID. After the id of one of its
// messages it continues with the next one. Any other id is reported as a gap. The
// stream begins no later than the first untransferred message.
func FuzzLastEventID(f *testing.F) {
	h := harnessInMemory(f, 1)
	f.Cleanup(h.close)
	alice, bob := h.agent("alice"), h.agent("bob")
	own := h.send(alice, bob, 1).MessageID()
	other := h.send(bob, alice, 2).MessageID()
	for _, id := range []string{
		own.String(), strings.ToUpper(own.String()), other.String(), bob.String(), parley.MessageID{}.String(), "0190a6b0-0000-7000-8000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff", own.String() + " ", own.String()[1:], "", "0", "\xff", "null", strings.Repeat("0", 4096),
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := rest.NewCall(&fasthttp.RequestCtx{}, inside[rest.Host](h.server, "host"), nil, "")
		start, err := h.service.streams.Resume(c, &api.Stream{ID: bob, LastEventID: text})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		id, malformed := parley.ParseID[parley.MessageID](text)
		switch {
		case text == "":
			if start.Gap || !start.OnlyUntransferred {
				t.Fatalf("without an id: %+v", start)
			}
		case malformed == nil && id == own:
			if start.Gap || start.Last != own || start.After == 0 {
				t.Fatalf("after the last message: %+v", start)
			}
		case malformed == nil && id.Zero():
			if start.Gap || start.After != 0 || start.OnlyUntransferred {
				t.Fatalf("from the first on: %+v", start)
			}
		default:
			if !start.Gap || start.Last == own {
				t.Fatalf("%q: %+v", text, start)
			}
		}
	})
}
