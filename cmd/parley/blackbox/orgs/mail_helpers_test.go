package orgs

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// smtpServer is a mail server that accepts and keeps every email.
type smtpServer struct {
	ln net.Listener
	// tlsConfig is its TLS configuration; nil disables TLS.
	tlsConfig *tls.Config
	// atOnce: connections begin with TLS; otherwise the server offers STARTTLS.
	atOnce         bool
	user, password string // required credentials; "" accepts anyone

	mu          sync.Mutex
	emails      []*receivedEmail
	unencrypted []string // lines received without TLS
	ended       int      // ended connections
}

// receivedEmail is an email as the server received it.
type receivedEmail struct {
	from, login string
	to          []string
	raw         []byte
	overTLS     bool // received over TLS
}

func newSMTPServer(t testing.TB, o *smtpServer) *smtpServer {
	t.Helper()
	var err error
	if o.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.ln.Close() })
	go func() {
		for {
			conn, err := o.ln.Accept()
			if err != nil {
				return
			}
			go o.serve(conn)
		}
	}()
	return o
}

// url returns the server's address for --smtp-url.
func (o *smtpServer) url() string {
	scheme, login := "smtp", ""
	if o.atOnce {
		scheme = "smtps"
	}
	if o.user != "" {
		login = o.user + ":" + o.password + "@"
	}
	return scheme + "://" + login + o.ln.Addr().String()
}

func (o *smtpServer) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended++
	}()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if o.atOnce {
		conn = tls.Server(conn, o.tlsConfig)
	}
	text := textproto.NewConn(conn)
	_ = text.PrintfLine("220 office.example")
	if !o.session(text, o.atOnce) {
		return
	}
	_ = text.PrintfLine("220 go ahead")
	if sealed := tls.Server(conn, o.tlsConfig); sealed.Handshake() == nil {
		o.session(textproto.NewConn(sealed), true)
	}
}

// session runs an SMTP session to its end, or until the client requests TLS.
func (o *smtpServer) session(text *textproto.Conn, sealed bool) (seal bool) {
	m := &receivedEmail{overTLS: sealed}
	for {
		line, err := text.ReadLine()
		if err != nil {
			return false
		}
		if !sealed {
			o.mu.Lock()
			o.unencrypted = append(o.unencrypted, line)
			o.mu.Unlock()
		}
		verb, rest, _ := strings.Cut(line, " ")
		said := "250 yes"
		switch verb = strings.ToUpper(verb); {
		case verb == "EHLO":
			said = "250-office.example\r\n250-8BITMIME\r\n250 AUTH PLAIN"
			if o.tlsConfig != nil && !sealed {
				said = "250-office.example\r\n250-STARTTLS\r\n250 AUTH PLAIN"
			}
		case verb == "STARTTLS" && o.tlsConfig != nil && !sealed:
			return true
		case verb == "AUTH":
			login, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			if said = "535 unknown"; string(login) == "\x00"+o.user+"\x00"+o.password {
				m.login, said = o.user, "235 known"
			}
		case o.user != "" && m.login == "" && verb != "QUIT":
			said = "530 who are you"
		case verb == "MAIL":
			m.from = angled(rest)
		case verb == "RCPT":
			m.to = append(m.to, angled(rest))
		case verb == "DATA":
			_ = text.PrintfLine("354 go on")
			if m.raw, err = readEmail(text); err != nil {
				return false
			}
			o.mu.Lock()
			o.emails = append(o.emails, m)
			o.mu.Unlock()
			m = &receivedEmail{overTLS: sealed, login: m.login}
		case verb == "QUIT":
			_ = text.PrintfLine("221 bye")
			return false
		}
		if text.PrintfLine("%s", said) != nil {
			return false
		}
	}
}

// angled returns the address of MAIL FROM:<…> or RCPT TO:<…>.
func angled(rest string) string {
	_, address, _ := strings.Cut(rest, "<")
	at := strings.LastIndexByte(address, '>')
	return address[:max(at, 0)]
}

// readEmail reads an email with its line ends unchanged and removes dot-stuffing.
func readEmail(text *textproto.Conn) ([]byte, error) {
	var raw []byte
	for {
		line, err := text.R.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if bytes.Equal(line, []byte(".\r\n")) {
			return raw, nil
		}
		raw = append(raw, bytes.TrimPrefix(line, []byte("."))...)
	}
}

// waitForEmail waits for an email to an address.
func (o *smtpServer) waitForEmail(t testing.TB, to string) *receivedEmail {
	t.Helper()
	var found *receivedEmail
	for deadline := time.Now().Add(20 * time.Second); found == nil; time.Sleep(5 * time.Millisecond) {
		for _, m := range o.all() {
			if slices.Contains(m.to, to) {
				found = m
			}
		}
		if found == nil && time.Now().After(deadline) {
			t.Fatalf("no email to %s arrived", to)
		}
	}
	return found
}

func (o *smtpServer) all() []*receivedEmail {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.emails)
}

// waitForSessions waits until n sessions have ended and returns the lines received without
// TLS.
func (o *smtpServer) waitForSessions(t testing.TB, n int) []string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		ended, clear := o.ended, slices.Clone(o.unencrypted)
		o.mu.Unlock()
		if ended >= n {
			return clear
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions ended, want %d", ended, n)
		}
	}
}

// newTLSServer starts the server with a certificate of a private authority, whose
// certificate it writes to caFile.
func newTLSServer(t testing.TB, o *smtpServer) (_ *smtpServer, caFile string) {
	t.Helper()
	by, err := kit.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := by.Issue(kit.Leaf{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(kit.Scratch, "mail-ca-*.pem")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: by.Certificate.Raw}); err != nil {
		t.Fatal(err)
	}
	o.tlsConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	return newSMTPServer(t, o), file.Name()
}

var (
	mailedToken = regexp.MustCompile(`/auth/verify-email --json '\{"token":"([A-Za-z0-9_-]+)"\}'`)
	messageIDOf = regexp.MustCompile(`^<[0-9a-f]{32}@service\.example>$`)
)

// token returns the token in the email.
func (m *receivedEmail) token() string {
	found := mailedToken.FindSubmatch(m.raw)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// emailHeaders are the headers of an email, each exactly once, and no others.
var emailHeaders = []string{"Auto-Submitted", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To"}

// emailFaults checks that an email goes to one address only and contains no text that a
// stranger may have written.
func emailFaults(m *receivedEmail, from, to string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if m.from != from || len(m.to) != 1 || m.to[0] != to {
		fault("the envelope is from %q to %q", m.from, m.to)
	}
	rest := bytes.ReplaceAll(m.raw, []byte("\r\n"), nil)
	if bytes.ContainsAny(rest, "\r\n\x00") {
		fault("line ends that are none")
	}
	for line := range bytes.SplitSeq(m.raw, []byte("\r\n")) {
		if len(line) > 998 { // source: RFC 5322 section 2.1.1
			fault("a line of %d bytes", len(line))
		}
	}
	email, err := mail.ReadMessage(bytes.NewReader(m.raw))
	if err != nil {
		return append(faults, err.Error())
	}
	h := email.Header
	for name, values := range h {
		if !slices.Contains(emailHeaders, name) || len(values) != 1 {
			fault("header %s: %q", name, values)
		}
	}
	for _, name := range emailHeaders {
		if h.Get(name) == "" {
			fault("no header %s", name)
		}
	}
	if list, err := h.AddressList("To"); err != nil || len(list) != 1 || list[0].String() != "<"+to+">" {
		fault("To is %q", h.Get("To"))
	}
	if list, err := h.AddressList("From"); err != nil || len(list) != 1 || list[0].Address != from {
		fault("From is %q", h.Get("From"))
	}
	if date, err := h.Date(); err != nil || time.Since(date).Abs() > time.Hour {
		fault("Date is %q", h.Get("Date"))
	}
	if !messageIDOf.MatchString(h.Get("Message-Id")) || h.Get("Mime-Version") != "1.0" || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Auto-Submitted") != "auto-generated" {
		fault("headers %q", h)
	}
	body, _ := io.ReadAll(email.Body)
	if len(mailedToken.FindAll(body, -1)) != 1 {
		fault("not one token in the email")
	}
	return faults
}

// TestEmailFaultsControl spoils a good email in one way at a time.
func TestEmailFaultsControl(t *testing.T) {
	t.Parallel()
	good := "From: \"Parley\" <parley@service.example>\r\nTo: <ops@b.example>\r\nSubject: Confirm\r\nDate: " + time.Now().UTC().Format(time.RFC1123Z) +
		"\r\nMessage-ID: <" + kit.RandomHex(16) + "@service.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nAuto-Submitted: auto-generated\r\n\r\n" +
		"curl https://service.example/auth/verify-email --json '{\"token\":\"abc\"}'\r\n"
	swap := func(from, to string) func(m *receivedEmail) {
		return func(m *receivedEmail) { m.raw = bytes.Replace(m.raw, []byte(from), []byte(to), 1) }
	}
	for what, c := range map[string]struct {
		spoil func(m *receivedEmail)
		sound bool
	}{
		"nothing":             {func(*receivedEmail) {}, true},
		"another sender":      {func(m *receivedEmail) { m.from = "x@b.example" }, false},
		"a second recipient":  {func(m *receivedEmail) { m.to = append(m.to, "x@b.example") }, false},
		"another recipient":   {func(m *receivedEmail) { m.to = []string{"x@b.example"} }, false},
		"a header let in":     {swap("Subject:", "Bcc: x@b.example\r\nSubject:"), false},
		"a header twice":      {swap("Subject:", "Subject: Win\r\nSubject:"), false},
		"a second address":    {swap("To: <ops@b.example>", "To: <ops@b.example>, <x@b.example>"), false},
		"a name let in":       {swap("To: <ops", "To: \"Win a prize\" <ops"), false},
		"the header ends":     {swap("Subject:", "\r\nSubject:"), false},
		"a bare line feed":    {swap("curl", "\ncurl"), false},
		"no date":             {swap("Date:", "X-Date:"), false},
		"an old date":         {swap("Date: ", "Date: Mon, 02 Jan 2006 15:04:05 +0000\r\nX-Rest: "), false},
		"a strange id":        {swap("Message-ID: <", "Message-ID: <x"), false},
		"a line without end":  {swap("curl", strings.Repeat("x", 999)), false},
		"no token":            {swap("token", "word"), false},
		"a token beside it":   {swap("curl", "curl https://x.example/auth/verify-email --json '{\"token\":\"x\"}'\r\ncurl"), false},
		"a page for a letter": {swap("text/plain", "text/html"), false},
	} {
		m := &receivedEmail{from: "parley@service.example", to: []string{"ops@b.example"}, raw: []byte(good)}
		c.spoil(m)
		if faults := emailFaults(m, "parley@service.example", "ops@b.example"); (len(faults) == 0) != c.sound {
			t.Errorf("%s: %q", what, faults)
		}
	}
}
