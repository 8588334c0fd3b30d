package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// lettersMax is how many letters wait for the mail server at most, and how many
	// for their next try.
	lettersMax = 1024
	// letterTries is how often a letter is handed to the mail server at most, with
	// letterPause after the first failure and ten times as much after the next.
	letterTries = 3
	letterPause = 10 * time.Second
	// letterWait is how long the mail server may take for one letter.
	letterWait = 30 * time.Second
)

// postman carries letters to the mail server, one after the other. One that the
// server does not take yet waits aside and holds up no other; one that it refuses
// for good is given up. What is not delivered when the process ends is lost: the
// operator may approve instead.
type postman struct {
	server  *url.URL
	from    *mail.Address
	base    string
	letters chan letter
	resting atomic.Int64 // letters that wait for their next try
	pause   time.Duration
	wait    time.Duration
}

type letter struct {
	to, token string
	tries     int // so far
}

// errNoAddress says that what was given at registration is no address for mail.
var errNoAddress = errors.New("no address for mail")

// mailer is how tokens are sent under --tier1 email, nil otherwise. Without a
// mail server they are logged, for the operator to pass on.
func (c *Config) mailer(ctx context.Context, base string) func(address, token string) {
	if c.Tier1 != "email" {
		return nil
	}
	if c.SMTPURL == "" {
		return func(address, token string) {
			slog.Info("no mail server is set: pass this token on, it raises the organization to trust tier 1", "to", address, "token", token)
		}
	}
	from := c.SMTPFrom
	if from == "" {
		host, _, _ := strings.Cut(c.Domain, ":")
		from = "parley@" + host
	}
	sender, _ := mail.ParseAddress(from)      // judged at the start
	server, _ := url.Parse(string(c.SMTPURL)) // likewise
	p := &postman{server: server, from: sender, base: base, letters: make(chan letter, lettersMax), pause: letterPause, wait: letterWait}
	go p.run(ctx)
	return p.post
}

// post takes a letter. It waits for nothing.
func (p *postman) post(to, token string) { p.put(letter{to: to, token: token}) }

func (p *postman) put(l letter) {
	select {
	case p.letters <- l:
	default:
		slog.Error("a letter was dropped: too many wait for the mail server", "to", l.to)
	}
}

func (p *postman) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-p.letters:
			p.deliver(ctx, l)
		}
	}
}

func (p *postman) deliver(ctx context.Context, l letter) {
	err := p.carry(ctx, l)
	l.tries++
	switch {
	case err == nil:
	case l.tries == letterTries || final(err):
		// A server that quotes what it refuses must not bring the token into the log.
		said := strings.ReplaceAll(err.Error(), l.token, "(token)")
		slog.Error("a letter could not be sent", "to", l.to, "tries", l.tries, "error", said)
	default:
		p.rest(l)
	}
}

// final reports whether another try would meet the same refusal.
// source: RFC 5321 section 4.2.1
func final(err error) bool {
	var refusal *textproto.Error
	return errors.Is(err, errNoAddress) || errors.As(err, &refusal) && refusal.Code/100 == 5
}

// rest puts a letter back into the queue after a pause.
func (p *postman) rest(l letter) {
	if p.resting.Add(1) > lettersMax {
		p.resting.Add(-1)
		slog.Error("a letter was dropped: too many wait for another try", "to", l.to)
		return
	}
	pause := p.pause
	for range l.tries - 1 {
		pause *= 10
	}
	time.AfterFunc(pause, func() {
		p.resting.Add(-1)
		p.put(l)
	})
}

// carry hands one letter to the mail server. It encrypts where the server can,
// and never sends a password in the clear to another machine.
func (p *postman) carry(ctx context.Context, l letter) error {
	to, err := mail.ParseAddress(l.to)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAddress, err)
	}
	// A display name that was registered with the address is not ours to pass on.
	to.Name = ""
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(p.wait))
	c, err := smtp.NewClient(conn, p.server.Hostname())
	if err != nil {
		return err
	}
	if err := p.prepare(c); err != nil {
		return err
	}
	if err := c.Mail(mailbox(p.from)); err != nil {
		return err
	}
	if err := c.Rcpt(mailbox(to)); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(p.text(to, l.token))); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // it has the letter
	return nil
}

// mailbox is an address as an envelope bears it: quoted where it must be.
func mailbox(a *mail.Address) string {
	bare := mail.Address{Address: a.Address}
	return strings.TrimSuffix(strings.TrimPrefix(bare.String(), "<"), ">")
}

func (p *postman) dial(ctx context.Context) (net.Conn, error) {
	host, port := p.server.Hostname(), p.server.Port()
	if p.server.Scheme == "smtps" {
		if port == "" {
			port = "465"
		}
		return (&tls.Dialer{Config: &tls.Config{ServerName: host}}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	}
	if port == "" {
		port = "587"
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

func (p *postman) prepare(c *smtp.Client) error {
	if can, _ := c.Extension("STARTTLS"); can {
		if err := c.StartTLS(&tls.Config{ServerName: p.server.Hostname()}); err != nil {
			return err
		}
	}
	if p.server.User == nil {
		return nil
	}
	password, _ := p.server.User.Password()
	return c.Auth(smtp.PlainAuth("", p.server.User.Username(), password, p.server.Hostname()))
}

// text is the letter as it goes over the wire. source: RFC 5322
func (p *postman) text(to *mail.Address, token string) string {
	_, domain, _ := strings.Cut(p.from.Address, "@")
	name := make([]byte, 16)
	_, _ = rand.Read(name)
	lines := []string{
		"From: " + p.from.String(), "To: " + to.String(), "Subject: Confirm your address",
		"Date: " + time.Now().UTC().Format(time.RFC1123Z), "Message-ID: <" + hex.EncodeToString(name) + "@" + domain + ">",
		"MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "Auto-Submitted: auto-generated", "",
		"Somebody registered an organization with this address at " + p.base + ".",
		"Was it you, then confirm within seven days:", "",
		"curl " + p.base + "/auth/verify-email --json '{\"token\":\"" + token + "\"}'", "",
		"Otherwise do nothing.",
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}
