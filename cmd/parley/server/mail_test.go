package server

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/mail"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// smtpServer is a mail server whose answers a test chooses.
type smtpServer struct {
	ln net.Listener
	// says answers a line of the session; "" is success, noAnswer means no answer.
	says func(line string) string

	mu    sync.Mutex
	lines []string
	taken chan string // recipients of accepted emails
	begun chan string // recipients, as RCPT names them
}

const noAnswer = "noAnswer"

func newSMTPServer(t *testing.T, address string, says func(line string) string) *smtpServer {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no such address on this machine: %v", err)
	}
	c := &smtpServer{ln: ln, says: says, taken: make(chan string, 100), begun: make(chan string, 100)}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.talk(conn)
		}
	}()
	return c
}

func (c *smtpServer) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := textproto.NewReader(bufio.NewReader(conn))
	to := ""
	for line := "(hello)"; ; {
		c.mu.Lock()
		c.lines = append(c.lines, line)
		c.mu.Unlock()
		if strings.HasPrefix(line, "RCPT TO:") {
			to = strings.Trim(strings.TrimPrefix(line, "RCPT TO:"), "<>")
			c.begun <- to
		}
		switch said := c.says(line); {
		case said == noAnswer:
			_, _ = io.Copy(io.Discard, conn) // until the client gives up
			return
		case said != "":
			_, _ = io.WriteString(conn, said+"\r\n")
		case line == "(hello)":
			_, _ = io.WriteString(conn, "220 clerk\r\n")
		case line == "DATA":
			_, _ = io.WriteString(conn, "354 go on\r\n")
			if _, err := in.ReadDotBytes(); err != nil {
				return
			}
			line = "(email)"
			continue
		case line == "(email)":
			c.taken <- to
			fallthrough
		default:
			_, _ = io.WriteString(conn, "250 yes\r\n")
		}
		var err error
		if line, err = in.ReadLine(); err != nil {
			return
		}
	}
}

// heard returns the lines of all sessions with this prefix.
func (c *smtpServer) heard(beginning string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.HasPrefix(line, beginning) {
			found = append(found, line)
		}
	}
	return found
}

// mailer returns a mailer that sends to this server until the test ends.
func (c *smtpServer) mailer(t *testing.T, user *url.Userinfo) *mailer {
	t.Helper()
	p := &mailer{
		server: &url.URL{Scheme: "smtp", User: user, Host: c.ln.Addr().String()}, from: &mail.Address{Address: "parley@service.example"},
		base: "https://service.example", queue: make(chan email, emailsMax), pause: time.Millisecond, wait: 20 * time.Second,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

// next waits for a value from a channel of the mail server.
func next(t *testing.T, what string, from chan string) string {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(15 * time.Second):
		t.Fatalf("did not happen: %s", what)
		return ""
	}
}

// logged captures the log of a test.
func logged(t *testing.T) *lockedBuffer {
	said := &lockedBuffer{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return said
}

// tells waits until the log contains a word.
func tells(t *testing.T, log *lockedBuffer, word string) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !strings.Contains(log.String(), word); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not contain %q:\n%s", word, log.String())
		}
	}
}

// TestEmailsAreRetried: an email is tried three times after temporary errors and once
// after a permanent one. The log contains no token in either case.
func TestEmailsAreRetried(t *testing.T) {
	const token = "the-token-of-the-email"
	for name, c := range map[string]struct {
		beginning, answer string
		tries             int
	}{
		"later, at the greeting":       {"(hello)", "421 come back later", emailTries},
		"later, at the sender":         {"MAIL", "451 come back later", emailTries},
		"later, at the recipient":      {"RCPT", "450 greylisted", emailTries},
		"later, at the email":          {"(email)", "452 no room, " + token, emailTries},
		"never, at the sender":         {"MAIL", "550 not from you", 1},
		"never, at the recipient":      {"RCPT", "550 nobody here", 1},
		"never, at the email's begin":  {"DATA", "554 no", 1},
		"never, with the email quoted": {"(email)", "554 spam: " + token, 1},
		"an answer that is none":       {"(hello)", "what", emailTries},
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			k := newSMTPServer(t, "127.0.0.1:0", func(line string) string {
				if strings.HasPrefix(line, c.beginning) {
					return c.answer
				}
				return ""
			})
			k.mailer(t, nil).send("ops@b.example", token)
			tells(t, log, "an email could not be sent")
			if n := len(k.heard("(hello)")); n != c.tries {
				t.Errorf("%d tries, want %d", n, c.tries)
			}
			if said := log.String(); strings.Contains(said, token) || !strings.Contains(said, "ops@b.example") || !strings.Contains(said, fmt.Sprintf("tries=%d", c.tries)) {
				t.Errorf("the log is %s", said)
			}
		})
	}
}

// TestAnEmailIsSentAtTheThirdTry: after success there are no more attempts.
func TestAnEmailIsSentAtTheThirdTry(t *testing.T) {
	log, seen := logged(t), 0
	k := newSMTPServer(t, "127.0.0.1:0", func(line string) string {
		if strings.HasPrefix(line, "RCPT") {
			if seen++; seen < emailTries {
				return "450 greylisted"
			}
		}
		return ""
	})
	k.mailer(t, nil).send("ops@b.example", "token")
	if to := next(t, "the email", k.taken); to != "ops@b.example" || seen != emailTries || log.String() != "" {
		t.Errorf("%s after %d tries; the log is %s", to, seen, log.String())
	}
}

// TestNoEmailWaitsForAnother: while one email waits for a retry, the next is sent.
func TestNoEmailWaitsForAnother(t *testing.T) {
	logged(t)
	k := newSMTPServer(t, "127.0.0.1:0", func(line string) string {
		if strings.HasPrefix(line, "RCPT TO:<slow@") {
			return "450 greylisted"
		}
		return ""
	})
	p := k.mailer(t, nil)
	p.pause = time.Hour // set before the first email: a test that waits for it times out
	p.send("slow@b.example", "token")
	p.send("other@b.example", "token")
	if to := next(t, "the other email", k.taken); to != "other@b.example" {
		t.Errorf("an email to %s", to)
	}
	if n := p.waiting.Load(); n != 1 {
		t.Errorf("%d emails remain", n)
	}
}

// TestAHangingServerIsGivenUp: the server stops answering; the email is retried and the
// log reports it.
func TestAHangingServerIsGivenUp(t *testing.T) {
	for _, where := range []string{"(hello)", "EHLO", "RCPT", "(email)"} {
		t.Run(where, func(t *testing.T) {
			log := logged(t)
			k := newSMTPServer(t, "127.0.0.1:0", func(line string) string {
				if strings.HasPrefix(line, where) {
					return noAnswer
				}
				return ""
			})
			p := k.mailer(t, nil)
			p.wait = 50 * time.Millisecond
			p.send("ops@b.example", "token")
			tells(t, log, "tries=3")
			if strings.Contains(log.String(), "token") {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
}

// spoken returns the lines that contain a password, plain or in the encoding of AUTH.
func spoken(lines []string, user, password string) (found []string) {
	for _, line := range lines {
		for _, form := range []string{password, base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)), base64.StdEncoding.EncodeToString([]byte(password))} {
			if strings.Contains(line, form) {
				found = append(found, line)
				break
			}
		}
	}
	return found
}

// TestNoPasswordInTheClear: a remote mail server without TLS gets neither the password
// nor an email. A server on this machine does.
func TestNoPasswordInTheClear(t *testing.T) {
	for address, trusted := range map[string]bool{"127.0.0.2:0": false, "127.0.0.1:0": true} {
		t.Run(address, func(t *testing.T) {
			log := logged(t)
			k := newSMTPServer(t, address, func(line string) string {
				switch {
				case strings.HasPrefix(line, "EHLO"):
					return "250-clerk\r\n250 AUTH PLAIN LOGIN"
				case strings.HasPrefix(line, "AUTH"):
					return "235 known"
				}
				return ""
			})
			k.mailer(t, url.UserPassword("me", "the password")).send("ops@b.example", "token")
			if trusted {
				next(t, "the email", k.taken)
			} else {
				tells(t, log, "an email could not be sent")
			}
			if told := spoken(k.heard(""), "me", "the password"); (len(told) > 0) != trusted || (len(k.heard("RCPT")) > 0) != trusted {
				t.Errorf("said: %q", k.heard(""))
			}
		})
	}
	// The check finds a password in every encoding.
	said := []string{"AUTH PLAIN AG1lAHRoZSBwYXNzd29yZA==", "dGhlIHBhc3N3b3Jk", "X the password", "AUTH PLAIN AG90aGVy"}
	if got := spoken(said, "me", "the password"); !slices.Equal(got, said[:3]) {
		t.Errorf("of %q the check found only %q", said, got)
	}
}

// TestWaitingEmailsAreBounded: the queue and the list of waiting emails keep their
// bounds, and the log names the recipient of a dropped email.
func TestWaitingEmailsAreBounded(t *testing.T) {
	log := logged(t)
	p := &mailer{queue: make(chan email, emailsMax), pause: time.Hour}
	for range emailsMax {
		p.send("kept@b.example", "token")
		p.retryLater(email{to: "kept@b.example", token: "token", tries: 1})
	}
	if log.String() != "" {
		t.Fatalf("the log is %.300s", log.String())
	}
	p.send("dropped@b.example", "token")
	p.retryLater(email{to: "dropped@b.example", token: "token", tries: 1})
	if said := log.String(); strings.Count(said, "dropped@b.example") != 2 || strings.Contains(said, "token") || p.waiting.Load() != emailsMax {
		t.Errorf("%d remain; the log is %s", p.waiting.Load(), said)
	}
}

// lockedBuffer is a buffer that a logger can write while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
