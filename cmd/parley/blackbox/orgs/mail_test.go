package orgs

import (
	"encoding/base64"
	"runtime"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

const mailSender = "parley@service.example"

// mailFlags make the server send its tokens by email.
func mailFlags(journals string, o *smtpServer, more ...string) []string {
	return append([]string{"--journals", journals, "--tier1", "email", "--smtp-url", o.url(), "--smtp-from", "Parley <" + mailSender + ">"}, more...)
}

// registers registers an organization with the given email address. It returns nil if the
// address is invalid.
func registers(t testing.TB, s *kit.Server, email, name string) *kit.Org {
	t.Helper()
	slug := kit.FreshSlug()
	c := s.Call(t, "", "POST", "/auth/register", obj{"email": email, "org_slug": slug, "org_name": name})
	if c.Status == 422 {
		c.Invalid("body.email", "")
		return nil
	}
	a := s.Call(t, "", "POST", "/auth/register/solve", c.Want(201).Solution()).Want(201).Is("trust_tier", 0)
	o := &kit.Org{T: t, S: s, Slug: slug, ID: a.Str("org_id"), Client: a.Str("client_id"), Secret: a.Str("client_secret")}
	o.Token = s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
	return o
}

// cleared checks whether the organization may do what trust tier 1 allows.
func cleared(o *kit.Org, may bool) {
	o.T.Helper()
	if may {
		o.Get("/org").Want(200).Is("trust_tier", 1)
		o.Post("/messages", obj{}).As("cleared").Invalid("body.type", "missing")
		return
	}
	o.Get("/org").Want(200).Is("trust_tier", 0)
	for _, path := range []string{"/agents", "/messages", "/messages/sync", "/messages/" + kit.Nobody + "/reply"} {
		o.Post(path, obj{}).As("not cleared, before its schema is judged").Refused(403, "trust_tier_required")
	}
}

// TestMailedTokenClears: a new organization has restricted rights. The token of its email
// lifts the restriction without a new access token.
func TestMailedTokenClears(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		mails, admin := newSMTPServer(t, &smtpServer{}), kit.FreeAddress(t)
		s := kit.Start(t, mailFlags(journals, mails, "--admin-listen", admin, "--access-log", "--log-level", "debug")...)
		verify := func(token any) *kit.Answer { return s.Call(t, "", "POST", "/auth/verify-email", obj{"token": token}) }
		a, b := registers(t, s, "ops@a.example", "A"), registers(t, s, "ops@b.example", "B")
		first, second := mails.waitForEmail(t, "ops@a.example"), mails.waitForEmail(t, "ops@b.example")
		for to, m := range map[string]*receivedEmail{"ops@a.example": first, "ops@b.example": second} {
			for _, fault := range emailFaults(m, mailSender, to) {
				t.Errorf("the email to %s: %s\n%s", to, fault, m.raw)
			}
			if !strings.Contains(string(m.raw), "curl "+s.Base+"/auth/verify-email ") {
				t.Errorf("the email does not link to this server: %s", m.raw)
			}
		}
		cleared(a, false)
		token := first.token()
		sealed, _ := base64.RawURLEncoding.DecodeString(token)
		for i := range sealed { // changing any bit makes it invalid
			forged := slices.Clone(sealed)
			forged[i] ^= 1 << (i % 8)
			verify(base64.RawURLEncoding.EncodeToString(forged)).As("byte %d", i).Refused(404, "not_found")
		}
		for _, wrong := range []string{"x", token[1:], token + "A", token + token, a.Token, a.Secret} {
			verify(wrong).As("%.20q", wrong).Refused(404, "not_found")
		}
		verify(nil).Invalid("body.token", "missing")
		cleared(a, false)
		verify(token).Want(200).Is("org_id", a.ID, "org_slug", a.Slug, "trust_tier", 1)
		cleared(a, true)
		a.Agent("alice")
		cleared(b, false)

		// A token cannot be used twice: it does not restore a tier that the operator
		// lowered.
		verify(token).As("again").Want(200).Is("trust_tier", 1)
		kit.Succeeds(t, "org", "tier", a.Slug, "0", "--admin", "http://"+admin, "--data", s.Dir)
		verify(token).As("after the operator").Want(200).Is("trust_tier", 0)
		cleared(a, false)

		// A token that was sent before a crash is valid after it.
		s.Kill()
		said := s.Log.Text()
		s.Restart(t)
		verify(second.token()).Want(200).Is("org_id", b.ID, "trust_tier", 1)
		cleared(b, true)
		for _, secret := range []string{token, second.token()} {
			if strings.Contains(said+s.Log.Text(), secret) {
				t.Error("the log shows a token")
			}
		}
	})
}

// TestTokensOfAnotherServerAreRejected: a server accepts only tokens of its own, and none
// if email verification is off.
func TestTokensOfAnotherServerAreRejected(t *testing.T) {
	t.Parallel()
	mails := newSMTPServer(t, &smtpServer{})
	one, other := kit.Start(t, mailFlags("1", mails)...), kit.Start(t, mailFlags("1", mails)...)
	registers(t, one, "ops@one.example", "one")
	token := obj{"token": mails.waitForEmail(t, "ops@one.example").token()}
	other.Call(t, "", "POST", "/auth/verify-email", token).Refused(404, "not_found")
	one.Kill()
	one.SetFlag("--tier1", "approval")
	one.Restart(t)
	one.Call(t, "", "POST", "/auth/verify-email", token).As("not by mail").Refused(404, "not_found")
}

// TestEmailHasNoUserText: whatever is registered, the email goes to one address
// and contains only text that the server writes.
func TestEmailHasNoUserText(t *testing.T) {
	t.Parallel()
	mails := newSMTPServer(t, &smtpServer{})
	s := kit.Start(t, mailFlags("1", mails)...)
	name, want := "Acme hello", 1 // an address with line ends is rejected
	for address, to := range map[string]string{
		"a@b.example\r\nBcc:x@b.example": "", "a\n@b.example": "", "a@b.example\n": "", "a@b.example,x": "", "a\x00@b.example": "", "two\x0b@b.example": "",
		`"Win"<named@b.example>`: "", `Win-a-prize<prize@b.example>`: "", `=?utf-8?q?Win?=<coded@b.example>`: "",
		`<bare@b.example>`: "", `noted@b.example(Bcc:x)`: "", `list:listed@b.example;`: "",
		`"quo\"ted"@b.example`: "", "o'brien@b.example": "o'brien@b.example", `left<open@b.example`: "", `a@b.example>`: "", `a;b@c`: "", `.a@b.example`: "", "+tag@b.example": "+tag@b.example",
	} {
		o := registers(t, s, address, name)
		if to != "" && o == nil {
			t.Errorf("%q was rejected", address)
		}
		if to == "" {
			continue
		}
		want++
		m := mails.waitForEmail(t, to)
		for _, fault := range emailFaults(m, mailSender, to) {
			t.Errorf("%q: %s\n%s", address, fault, m.raw)
		}
		for _, word := range []string{"Win", "prize-", "Bcc", "Acme", "hello"} {
			if strings.Contains(string(m.raw), word) {
				t.Errorf("%q puts %q into the email:\n%s", address, word, m.raw)
			}
		}
	}
	// Emails are sent in order: when this one arrives, no other is pending.
	registers(t, s, "last@b.example", "last")
	mails.waitForEmail(t, "last@b.example")
	if n := len(mails.all()); n != want {
		t.Errorf("%d emails, want %d", n, want)
	}
}

// TestMailIsEncrypted: if the mail server supports TLS, only the greeting is sent without
// it, and a password is sent only to a server with a valid certificate.
func TestMailIsEncrypted(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"STARTTLS": false, "smtps": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" {
				t.Skip("SSL_CERT_FILE works on Linux only")
			}
			mails, ca := newTLSServer(t, &smtpServer{atOnce: atOnce, user: "sender", password: "the-password-" + kit.RandomHex(8)})
			s := kit.StartThrough(t, []string{"env", "SSL_CERT_FILE=" + ca, "SSL_CERT_DIR=" + t.TempDir()}, mailFlags("1", mails, "--log-level", "debug")...)
			registers(t, s, "ops@a.example", "A")
			m := mails.waitForEmail(t, "ops@a.example")
			for _, fault := range emailFaults(m, mailSender, "ops@a.example") {
				t.Error(fault)
			}
			if leaks := unencryptedLines(mails.waitForSessions(t, 1)); !m.overTLS || m.login != "sender" || len(leaks) > 0 {
				t.Errorf("over TLS %v, from %q; without TLS %q", m.overTLS, m.login, leaks)
			}
			if strings.Contains(s.Log.Text(), mails.password) {
				t.Error("the log shows the password")
			}
		})
		t.Run(name+" of a stranger", func(t *testing.T) {
			t.Parallel()
			mails, _ := newTLSServer(t, &smtpServer{atOnce: atOnce, user: "sender", password: "the-password-" + kit.RandomHex(8)})
			s := kit.Start(t, mailFlags("1", mails)...)
			o := registers(t, s, "ops@a.example", "A")
			if leaks := unencryptedLines(mails.waitForSessions(t, 1)); len(leaks) > 0 || len(mails.all()) > 0 {
				t.Errorf("without TLS %q; %d emails", leaks, len(mails.all()))
			}
			cleared(o, false)
		})
	}
	if got := unencryptedLines([]string{"EHLO x", "STARTTLS", "MAIL FROM:<a@b>", "AUTH PLAIN eA==", "QUIT"}); len(got) != 2 {
		t.Errorf("the check found only %q", got)
	}
}

// unencryptedLines returns the lines that should have been sent over TLS.
func unencryptedLines(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasPrefix(line, "EHLO ") || line == "STARTTLS" || line == "QUIT"
	})
}
