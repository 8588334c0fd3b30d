package http

import (
	"fmt"
	"testing"
)

// TestChallengeRequestStoresNothing: a client that requests a challenge, or fails to
// solve it, causes no write to disk and leaves no actor in memory.
func TestChallengeRequestStoresNothing(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	p := h.tenant("acme")
	p.token = ""
	// The journal's clock runs by itself, so the test counts entries.
	entries := func() uint64 { return h.store.Stats().Journals[0].Entries }
	before, live := entries(), h.node.Live()
	var id string
	for i := range 200 {
		id = p.ask("POST", "/auth/register", fmt.Sprintf(`{"email":"a@b.c","org_slug":"slug-%d"}`, i)).want(201).text("challenge_id")
	}
	p.ask("POST", "/auth/register/solve", `{"challenge_id":"nonsense","nonce":"n"}`).want(404, "not_found")
	p.ask("POST", "/auth/register", `{"email":"a@b.c","org_slug":"acme"}`).want(409, "slug_taken")
	if n := entries() - before; n != 0 || h.node.Live() != live {
		t.Errorf("200 requests for a challenge made %d entries, and %d actors live where %d did", n, h.node.Live(), live)
	}
	// The control: a solution makes an entry, and the count shows it.
	p.ask("POST", "/auth/register/solve", `{"challenge_id":"`+id+`","nonce":"n"}`).want(201)
	if n := entries() - before; n != 1 {
		t.Errorf("a solution made %d entries, want 1", n)
	}
}
