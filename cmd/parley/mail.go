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
	"net/url"
	"strings"
	"time"
)

const (
	// lettersMax is how many letters wait for the mail server at most.
	lettersMax = 1024
	// letterTries is how often a letter is handed to the mail server at most, with
	// letterPause after the first failure and ten times as much after the next.
	letterTries = 3
	letterPause = 10 * time.Second
	letterWait  = 30 * time.Second
)

// postman carries letters to the mail server, one after the other. What it has
// not delivered when the process ends is lost: the operator may approve instead.
type postman struct {
	server  *url.URL
	from    *mail.Address
	base    string
	letters chan letter
	pause   time.Duration
}

type letter struct{ to, token string }

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
	p := &postman{server: server, from: sender, base: base, letters: make(chan letter, lettersMax), pause: letterPause}
	go p.run(ctx)
	return p.post
}

// post takes a letter. It waits for nothing.
func (p *postman) post(to, token string) {
	select {
	case p.letters <- letter{to, token}:
	default:
		slog.Error("a letter was dropped: too many wait for the mail server", "to", to)
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
	pause := p.pause
	for try := 1; ; try++ {
		err := p.carry(ctx, l)
		switch {
		case err == nil:
			return
		case try == letterTries:
			slog.Error("a letter could not be sent", "to", l.to, "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause *= 10
		}
	}
}

// carry hands one letter to the mail server. It encrypts where the server can,
// and never sends a password in the clear to another machine.
func (p *postman) carry(ctx context.Context, l letter) error {
	to, err := mail.ParseAddress(l.to)
	if err != nil {
		return fmt.Errorf("no address for mail: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, letterWait)
	defer cancel()
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(letterWait))
	c, err := smtp.NewClient(conn, p.server.Hostname())
	if err != nil {
		return err
	}
	if err := p.prepare(c); err != nil {
		return err
	}
	if err := errors.Join(c.Mail(p.from.Address), c.Rcpt(to.Address)); err != nil {
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
