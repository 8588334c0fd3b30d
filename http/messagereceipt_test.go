package http

import (
	"strings"
	"testing"
	"time"

	"parley/actors/issuer"
	"parley/http/auth"
)

// TestReceiptIsSigned: a receipt is signed with the key of receipts, not with that of
// another purpose.
func TestReceiptIsSigned(t *testing.T) {
	g := newGroupHarness(t)
	sent := g.first.ask("POST", "/messages", `{"to_agent_id":"`+g.bob+`","type":"svc.v1.dm","encrypted_payload":"AA"}`).want(201)
	path := "/messages/" + sent.text("id") + "/receipt"
	receipt := g.second.ask("GET", path, "").want(200).text("receipt")
	header, _, _ := strings.Cut(receipt, ".")
	want, err := auth.SignCompact(cardKeyOf('r'), "svc-receipt+jwt", nil)
	if err != nil || !strings.HasPrefix(want, header+".") {
		t.Errorf("the header of %s is not that of the key of receipts, %s: %v", receipt, want, err)
	}
	g.first.ask("GET", "/messages/"+sent.text("id"), "").want(200).is(map[string]any{"status": "new"})
	g.service.receiptKeys.use(auth.KeySet{Current: cardKeyOf('s')})
	if other := g.second.ask("GET", path, "").want(200).text("receipt"); other == receipt || strings.Split(other, ".")[1] != strings.Split(receipt, ".")[1] {
		t.Errorf("with another key the receipt is %s, before %s", other, receipt)
	}
	g.nobody.ask("GET", path, "").want(403, "not_owner")
}

// TestReceiptKeysArePublished: a new key is in the key document before it signs, and former
// ones stay there.
func TestReceiptKeysArePublished(t *testing.T) {
	g := newGroupHarness(t)
	var kids []string
	published := func(what, kid string) {
		t.Helper()
		kids = append(kids, kid)
		document := string(g.public().ask("GET", "/.well-known/jwks.json", "").want(200).raw)
		for _, kid := range kids {
			if strings.Count(document, kid) != 1 {
				t.Errorf("%s: the document does not have %s once: %s", what, kid, document)
			}
		}
	}
	for range 2 {
		rotated, err := g.service.RotateReceiptKeys(t.Context(), g.vault, true)
		if err != nil {
			t.Fatal(err)
		}
		published("replaced at once", rotated.Kid)
	}
	state, err := mintKey(t.Context(), g.node.ReceiptKeys, g.vault, issuer.Mint{Lifetime: time.Nanosecond}, g.service.Entropy)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.service.RenewKeys(t.Context(), g.vault); err != nil {
		t.Fatal(err)
	}
	published("due", state.Current().GetKid())
	if signs := g.service.receiptKeys.Keys().Current.Kid; signs != kids[1] {
		t.Errorf("%s signs, want %s, which verifiers have", signs, kids[1])
	}
}
