package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// receiptOf gets the signed receipt of a message.
func receiptOf(g *kit.Agent, m obj) string {
	g.T.Helper()
	a := g.Get("/messages/" + kit.Text(m, "id") + "/receipt").Want(200)
	kit.Exactly(g.T, "the answer", a.Body, "receipt")
	return a.Str("receipt")
}

// proven checks the signature of a receipt with the server's key document, and returns what
// it says and the id of its key.
func proven(t testing.TB, s *kit.Server, receipt string) (claims obj, kid any) {
	t.Helper()
	header, claims, signed, signature := kit.ClaimsOf(t, receipt)
	kit.Exactly(t, "the header", header, "alg kid typ")
	if header["alg"] != "EdDSA" || header["typ"] != "svc-receipt+jwt" {
		t.Errorf("the header is %v", header)
	}
	keys, _ := s.Call(t, "", "GET", "/.well-known/jwks.json", nil).Want(200).At("keys").([]any)
	for _, k := range kit.Objects(keys) {
		if raw, err := base64.RawURLEncoding.DecodeString(kit.Text(k, "x")); err == nil && k["kid"] == header["kid"] && ed25519.Verify(raw, []byte(signed), signature) {
			return claims, header["kid"]
		}
	}
	t.Fatalf("no published key verifies the receipt %s", receipt)
	return nil, nil
}

// TestMessageReceipt: both parties of a message get the same signed statement of what the
// server accepted, and nobody else gets one.
func TestMessageReceipt(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		stranger := s.Org(t).Agent("stranger")
		m := a.Send(b, obj{"encrypted_payload": "c2VhbGVk__8=", "type": "acme.v1.order"})
		receipt := receiptOf(a, m)
		if again, theirs := receiptOf(a, m), receiptOf(b, m); again != receipt || theirs != receipt {
			t.Errorf("the receipt is %s, then %s, the recipient's %s", receipt, again, theirs)
		}
		claims, kid := proven(t, s, receipt)
		kit.Exactly(t, "the claims", claims, "iss iat message_id conversation_id position payload_sha256 encryption_version type from_agent_id from_handle to_agent_id to_handle group_id accepted_at")
		sum := sha256.Sum256([]byte("c2VhbGVk__8="))
		wanted := obj{
			"iss": s.Base, "message_id": m["id"], "conversation_id": m["conversation_id"], "position": 1, "payload_sha256": hex.EncodeToString(sum[:]),
			"encryption_version": "hpke-v1", "type": "acme.v1.order", "from_agent_id": a.ID, "from_handle": a.Handle, "to_agent_id": b.ID, "to_handle": b.Handle,
			"group_id": nil, "accepted_at": m["created_at"],
		}
		for name, want := range wanted {
			if !kit.Same(claims[name], want) {
				t.Errorf("%s is %v, want %v", name, claims[name], want)
			}
		}
		if at := kit.Moment(t, claims, "accepted_at").Unix(); !kit.Same(claims["iat"], at) {
			t.Errorf("iat is %v, want %d", claims["iat"], at)
		}
		kit.Marked(t, a, m, "new")
		token, _, _, _ := kit.ClaimsOf(t, a.Token)
		if token["kid"] == kid {
			t.Error("receipts and tokens are signed with the same key")
		}
		s.Call(t, receipt, "GET", "/org", nil).As("the receipt as a token").Want(401)

		places := []float64{1}
		for i := range 9 {
			if i == 4 {
				a.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "paused"}).Want(200)
			}
			reply := []*kit.Agent{a, b}[i%2].Reply(m)
			claims, _ := proven(t, s, receiptOf(b, reply))
			if place := claims["position"].(float64); place <= places[i] || claims["message_id"] != reply["id"] {
				t.Errorf("reply %d has the place %v after %v: %v", i, place, places[i], claims)
			} else {
				places = append(places, place)
			}
		}
		if again := receiptOf(a, m); again != receipt {
			t.Errorf("later the receipt is %s", again)
		}

		r := grouptest.NewWithPolicy(a, "open", b, stranger)
		for want := range 2 {
			r.Broadcast(a)
			copies := grouptest.CopiesOf(b)
			own := copies[len(copies)-1]
			claims, _ := proven(t, s, receiptOf(b, own))
			if claims["group_id"] != r.ID || claims["to_agent_id"] != b.ID || claims["to_handle"] != b.Handle || claims["message_id"] != own["id"] || claims["position"].(float64) <= float64(want) {
				t.Errorf("the receipt of a copy: %v", claims)
			}
			if receiptOf(a, own) != receiptOf(b, own) {
				t.Error("the sender's receipt of a copy is another")
			}
		}
		path := "/messages/" + kit.Text(m, "id") + "/receipt"
		stranger.Get(path).Refused(403, "not_owner")
		a.Get("/messages/"+kit.Nobody+"/receipt").Refused(404, "not_found")
		a.Get("/messages/x/receipt").Invalid("path", "uuid_parsing")
		s.Call(t, "", "GET", path, nil).Refused(401, "not_authenticated")
		b.Delete("/orgs/" + b.Org.ID).Want(200)
		a.Get(path).As("of an erased message").Refused(410, "gone")
		stranger.Get(path).As("of an erased message").Refused(404, "not_found")
	})
}

// TestReceiptKeyRotate: receipts of a former key verify for good; a new one says the same.
func TestReceiptKeyRotate(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		former := receiptOf(a, m)
		said, kid := proven(t, s, former)
		kids := map[any]bool{kid: true}
		for range 2 {
			kit.Succeeds(t, "key", "rotate", "--receipts", "--now", "--admin", "http://"+admin, "--data", s.Dir)
			for range 2 {
				again, now := proven(t, s, receiptOf(a, m))
				kids[now] = true
				if !kit.Same(again, said) {
					t.Errorf("the new receipt says %v, the former %v", again, said)
				}
				proven(t, s, former)
				s.Kill()
				s.Restart(t)
			}
		}
		if len(kids) != 3 {
			t.Errorf("%d keys signed, want 3", len(kids))
		}
	})
}

// TestReceiptCommands: the command gets receipts and checks them, with the documents of
// servers and files, and names what is wrong.
func TestReceiptCommands(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		alice, bob := s.ProfileAt(t, s.Base, "alice"), s.ProfileAt(t, s.Base, "bob")
		alice.Run("send", bob.Handle(), "hello")
		m, dir := bob.Newest(), t.TempDir()
		write := func(name, content string) string {
			t.Helper()
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		file := filepath.Join(dir, "receipt.jws")
		receipt := kit.Text(alice.Run("receipt", kit.Text(m, "id"), "--out", file), "receipt")
		if kept := string(kit.ContentOf(t, file)); kept != receipt+"\n" || kit.Text(bob.Run("receipt", kit.Text(m, "id")), "receipt") != receipt {
			t.Errorf("the file has %q, the receipt is %q", kept, receipt)
		}
		jwks := write("jwks.json", string(s.Call(t, "", "GET", "/.well-known/jwks.json", nil).Raw))
		payload := write("payload", kit.Text(m, "encrypted_payload")+"\n")
		parts := strings.Split(receipt, ".")
		for name, c := range map[string]struct {
			args []string
			code int
			says string
		}{
			"by the profile":         {[]string{file, "--profile", alice.Dir}, 0, "genuine: " + s.Base},
			"by a URL":               {[]string{file, "--url", s.Base, "--profile", "none"}, 0, "from          " + alice.Handle()},
			"by a document":          {[]string{file, "--jwks", s.Base + "/.well-known/jwks.json"}, 0, "to            " + bob.Handle()},
			"by a file":              {[]string{file, "--jwks", jwks, "--payload", payload}, 0, ", matches"},
			"without a payload":      {[]string{file, "--jwks", jwks}, 0, "not compared"},
			"another payload":        {[]string{file, "--jwks", jwks, "--payload", write("other", kit.Text(m, "encrypted_payload")+"A")}, 1, "another payload"},
			"a changed receipt":      {[]string{write("changed", parts[0]+"."+parts[1][:len(parts[1])-4]+"AAAA."+parts[2]), "--jwks", jwks}, 1, "changed or is forged"},
			"no receipt":             {[]string{write("none", "hello"), "--jwks", jwks}, 1, "three parts"},
			"an access token":        {[]string{write("token", alice.Org().Token), "--jwks", jwks}, 1, "not a receipt"},
			"keys of another server": {[]string{file, "--jwks", write("none.json", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"}]}`)}, 1, "does not have the key"},
			"no document":            {[]string{file, "--jwks", payload}, 1, "is not a key document"},
		} {
			out, said, code := kit.Command(t, append([]string{"receipt", "verify"}, c.args...)...)
			if code != c.code || !strings.Contains(out+said, c.says) || code != 0 && out != "" {
				t.Errorf("%s: exit code %d, want %d with %q\n%s%s", name, code, c.code, c.says, out, said)
			}
		}
		if _, _, code := kit.Command(t, "receipt", kit.Text(m, "id"), "--out", file, "--profile", alice.Dir); code != 2 {
			t.Errorf("a file that exists: exit code %d", code)
		}
		if _, _, code := kit.Command(t, "receipt", kit.Nobody, "--profile", alice.Dir); code != 5 {
			t.Errorf("an unknown message: exit code %d", code)
		}
		shown := kit.Succeeds(t, "receipt", "verify", file, "--jwks", jwks, "--payload", payload)
		if shown["message_id"] != m["id"] || shown["payload_matches"] != true || kit.Text(shown, "kid") == "" {
			t.Errorf("as JSON: %v", shown)
		}
	})
}
