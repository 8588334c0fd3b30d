package e2ee

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"parley/client/parley"
)

const senderKeyFile = "testdata/sender-key-v1.json"

var circle = parley.GroupID{1, 0x93, 0x2f, 0, 0, 0, 0x70, 4, 0x80, 0, 0, 0, 0, 0, 0, 0xc}

// senderVectors is the shape of testdata/sender-key-v1.json; docs/encryption.md
// explains it.
type senderVectors struct {
	Group      string         `json:"group_id"`
	Sender     vectorKey      `json:"sender"`
	Generation uint64         `json:"generation"`
	Chain      []vectorLink   `json:"chain"`
	Open       []senderVector `json:"open"`
	// Refuse lists texts that must not open as what they are said to be.
	Refuse []senderCase `json:"refuse"`
}

type vectorLink struct {
	Counter uint32 `json:"counter"`
	Chain   string `json:"chain_key_hex"`
	Message string `json:"message_key_hex"`
}

// senderCase is a text with the group, the sender and the two types that it is said to
// have.
type senderCase struct {
	Why         string `json:"why"`
	Group       string `json:"group_id"`
	Sender      string `json:"sender_agent_id"`
	MessageType string `json:"type"`
	ContentType string `json:"content_type"`
	Text        string `json:"text"`
}

// senderVector is a text that opens, with its parts.
type senderVector struct {
	senderCase
	Counter    uint32 `json:"counter"`
	Nonce      string `json:"nonce_hex"`
	Bound      string `json:"associated_data_hex"`
	SignedText string `json:"signed_text_hex"`
	Signature  string `json:"signature_hex"`
	Plaintext  string `json:"plaintext_hex"`
	Ciphertext string `json:"ciphertext_hex"`
	Payload    string `json:"payload_hex"`
}

// TestSenderKeyVectors recomputes the file from the sender's seed, the first chain key
// and the nonces.
func TestSenderKeyVectors(t *testing.T) {
	want, err := json.MarshalIndent(makeSenderVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(senderKeyFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(senderKeyFile)
	if err != nil || !bytes.Equal(kept, want) {
		t.Fatalf("the vectors differ from what the code computes: %v", err)
	}
	var v senderVectors
	if err := json.Unmarshal(kept, &v); err != nil || len(v.Open) < 3 || len(v.Refuse) < 6 {
		t.Fatalf("the file differs from the vectors of this test: %v", err)
	}
	for _, c := range v.Open {
		if payload, err := openCase(t, v, c.senderCase); err != nil || hex.EncodeToString(payload) != c.Payload {
			t.Errorf("%s: %v", c.Why, err)
		}
	}
	for _, c := range v.Refuse {
		if payload, err := openCase(t, v, c); err == nil || payload != nil {
			t.Errorf("%s: opened", c.Why)
		}
	}
}

// openCase opens a text with the chain of the vectors.
func openCase(t *testing.T, v senderVectors, c senderCase) ([]byte, error) {
	ann, _, eve := cast(t)
	group, err := parley.ParseID[parley.GroupID](c.Group)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := parley.ParseID[parley.AgentID](c.Sender)
	if err != nil {
		t.Fatal(err)
	}
	text, err := decodeGroupText(c.Text)
	if err != nil {
		return nil, err
	}
	m := broadcast{chainScope{group, sender, text.generation}, text.counter, c.MessageType, c.ContentType}
	key, err := hex.DecodeString(v.Chain[0].Chain)
	if err != nil {
		t.Fatal(err)
	}
	p := &peerKeys{}
	// The named sender has given this chain, but it decrypts no other text.
	if _, err := p.accept(m.chainScope, chainLink{Key: key}); err != nil {
		t.Fatal(err)
	}
	if key, err = p.key(m, parley.MessageID{1}); err != nil {
		return nil, err
	}
	payload, _, err := m.open(key, text, published(map[parley.AgentID]*KeyRing{ann.AgentID(): ann, eve.AgentID(): eve}[sender]))
	return payload, err
}

func makeSenderVectors(t *testing.T) senderVectors {
	ann, _, eve := cast(t)
	scope := chainScope{circle, ann.AgentID(), 1_795_000_000_000}
	v := senderVectors{Group: circle.String(), Sender: vectorKeyOf("ann", ann), Generation: scope.generation}
	link := chainLink{Key: bytes.Repeat([]byte{7}, chainKeySize)}
	links := []chainLink{}
	for range 5 {
		key, err := link.messageKey(scope)
		if err != nil {
			t.Fatal(err)
		}
		v.Chain = append(v.Chain, vectorLink{link.Counter, hex.EncodeToString(link.Key), hex.EncodeToString(key)})
		links = append(links, link)
		if link, err = link.next(scope); err != nil {
			t.Fatal(err)
		}
	}
	_, signing := ann.signer()
	_, forger := eve.signer()
	for i, c := range [][3]string{
		{"json", "svc.v1.dm", `{"hello":"circle"}`},
		{"empty payload", "acme.v1.ping", ""},
		{"every byte value, after one that was lost", "svc.v1.dm", allBytes()},
	} {
		counter := []uint32{0, 1, 3}[i]
		v.Open = append(v.Open, explainGroup(t, scope, links[counter], c, signing))
	}
	good := v.Open[0].senderCase
	said := func(why string, change func(*senderCase)) {
		c := good
		c.Why = why
		change(&c)
		v.Refuse = append(v.Refuse, c)
	}
	said("of another type", func(c *senderCase) { c.MessageType = "svc.v1.receipt" })
	said("of another content type", func(c *senderCase) { c.ContentType = "text/plain" })
	said("with a byte moved from one type to the other", func(c *senderCase) {
		c.MessageType, c.ContentType = c.MessageType+"a", c.ContentType[1:]
	})
	said("in another group", func(c *senderCase) { c.Group = parley.GroupID{9}.String() })
	said("in another sender's name", func(c *senderCase) { c.Sender = eve.AgentID().String() })
	said("as another counter", func(c *senderCase) { c.Text = changed(t, c.Text, 12, 1) })
	said("as another generation", func(c *senderCase) { c.Text = changed(t, c.Text, 8, 1) })
	said("of an unknown version", func(c *senderCase) { c.Text = changed(t, c.Text, 0, 3) })
	said("cut short", func(c *senderCase) { c.Text = c.Text[:len(c.Text)-4] })
	said("signed by another member, who has the chain too", func(c *senderCase) {
		c.Text = explainGroup(t, scope, links[0], [3]string{"", c.MessageType, "x"}, forger).Text
	})
	return v
}

// changed returns a text with one bit of one byte changed.
func changed(t *testing.T, text string, at int, bit byte) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= bit
	return base64.RawURLEncoding.EncodeToString(raw)
}

// explainGroup seals a payload with a fixed nonce and returns the text with its parts.
func explainGroup(t *testing.T, scope chainScope, link chainLink, c [3]string, signing signingKey) senderVector {
	t.Helper()
	m := broadcast{scope, link.Counter, c[1], "application/json"}
	key, err := link.messageKey(scope)
	if err != nil {
		t.Fatal(err)
	}
	nonce := bytes.Repeat([]byte{byte(0xa0 + link.Counter)}, nonceSize)
	text, err := m.seal(key, nonce, signing, []byte(c[2]))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := decodeGroupText(text)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := newAEAD(key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := aead.Open(nil, parts.nonce, parts.ciphertext, m.bound())
	if err != nil {
		t.Fatal(err)
	}
	_, signature, payload, err := splitSigned(plain)
	if err != nil {
		t.Fatal(err)
	}
	return senderVector{
		senderCase: senderCase{c[0], scope.group.String(), scope.sender.String(), m.messageType, m.contentType, text},
		Counter:    link.Counter, Nonce: hex.EncodeToString(parts.nonce), Bound: hex.EncodeToString(m.bound()),
		SignedText: hex.EncodeToString(m.signed(payload)), Signature: hex.EncodeToString(signature),
		Plaintext: hex.EncodeToString(plain), Ciphertext: hex.EncodeToString(parts.ciphertext), Payload: hex.EncodeToString(payload),
	}
}

func TestEveryTamperedBitOfABroadcastFails(t *testing.T) {
	ann, _, _ := cast(t)
	_, signing := ann.signer()
	scope := chainScope{circle, ann.AgentID(), 5}
	link := chainLink{Key: bytes.Repeat([]byte{7}, chainKeySize)}
	text := explainGroup(t, scope, link, [3]string{"", "svc.v1.dm", "payload"}, signing).Text
	receive := func(text string) (*peerKeys, error) {
		p := &peerKeys{}
		if _, err := p.accept(scope, link); err != nil {
			t.Fatal(err)
		}
		parts, err := decodeGroupText(text)
		if err != nil {
			return p, err
		}
		m := broadcast{chainScope{circle, ann.AgentID(), parts.generation}, parts.counter, "svc.v1.dm", "application/json"}
		key, err := p.key(m, parley.MessageID{1})
		if err != nil {
			return p, err
		}
		_, _, err = m.open(key, parts, published(ann))
		return p, err
	}
	if _, err := receive(text); err != nil {
		t.Fatalf("as it was sealed: %v", err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			p, err := receive(changed(t, text, i, 1<<bit))
			if err == nil {
				t.Fatalf("byte %d bit %d: opened", i, bit)
			}
			if g := p.find(5); g.Counter != 0 || len(g.Skipped)+len(g.Opened) != 0 {
				t.Fatalf("byte %d bit %d: a wrong text advanced the chain", i, bit)
			}
		}
	}
	for _, bad := range []string{"", "!", text + "\n", text[:10] + "\n" + text[10:], "=" + text, text + "===", text[:40]} {
		if _, err := decodeGroupText(bad); !errors.Is(err, ErrSenderKeyForm) {
			t.Fatalf("%q: %v", bad[:min(len(bad), 12)], err)
		}
	}
	if _, err := receive(text + "=="); err != nil {
		t.Fatalf("padded: %v", err)
	}
}

// TestBroadcastHoldsTheLargestPayload: the largest payload that can be sealed to one
// agent can be sealed to a group.
func TestBroadcastHoldsTheLargestPayload(t *testing.T) {
	ann, _, _ := cast(t)
	_, signing := ann.signer()
	m := broadcast{chainScope{circle, ann.AgentID(), 5}, 0, "svc.v1.dm", "application/json"}
	key, nonce := make([]byte, chainKeySize), make([]byte, nonceSize)
	text, err := m.seal(key, nonce, signing, []byte(strings.Repeat("z", PayloadBytesMax)))
	if err != nil || len(text) > parley.PayloadCharsMax {
		t.Fatalf("%d characters, %v", len(text), err)
	}
	if _, err := m.seal(key, nonce, signing, make([]byte, PayloadBytesMax+1)); !errors.Is(err, ErrPayloadTooLong) {
		t.Fatalf("too long: %v", err)
	}
}

// FuzzBroadcastPlaintext: for any plaintext that a member seals, opening it neither
// panics nor returns anything.
func FuzzBroadcastPlaintext(f *testing.F) {
	ann, _, _ := cast(f)
	for _, seed := range []string{"", "\x00", "\xff", "\x2b" + ann.SigningKey().Kid, "\x2b" + ann.SigningKey().Kid + strings.Repeat("s", 64)} {
		f.Add([]byte(seed))
	}
	m := broadcast{chainScope{circle, ann.AgentID(), 5}, 0, "svc.v1.dm", "application/json"}
	key, nonce := make([]byte, chainKeySize), make([]byte, nonceSize)
	aead, err := newAEAD(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		text := groupText{generation: 5, nonce: nonce, ciphertext: aead.Seal(nil, nonce, plain, m.bound())}
		if payload, _, err := m.open(key, text, published(ann)); err == nil || payload != nil {
			t.Fatalf("opened %q", plain)
		}
	})
}
