package server

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
	// emailsMax bounds the emails that wait for the mail server and, separately, those
	// that wait for a retry.
	emailsMax = 1024
	// emailTries bounds the attempts to send an email. The pause is emailPause after the
	// first failure and ten times as long after each further one.
	emailTries = 3
	emailPause = 10 * time.Second
	// emailWait bounds the time that the mail server may take for one email.
	emailWait = 30 * time.Second
)

// mailer sends emails to the mail server, one at a time. An email that the server does
// not accept yet waits without delaying others; one that the server rejects for good is
// dropped. Emails that are unsent when the process ends are lost; the operator can
// approve the organization instead.
type mailer struct {
	server  *url.URL
	from    *mail.Address
	base    string
	queue   chan email
	waiting atomic.Int64 // emails that wait for a retry
	pause   time.Duration
	wait    time.Duration
}

type email struct {
	to, token string
	tries     int // so far
}

// errNoAddress is returned if the contact address is not an email address.
var errNoAddress = errors.New("no address to send mail to")

// startMailer returns the function that sends tokens under --tier1 email, nil otherwise.
// Without a mail server it logs them, for the operator to pass on.
func (c *Config) startMailer(ctx context.Context, base string) func(address, token string) {
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
	sender, _ := mail.ParseAddress(from)      // validated at startup
	server, _ := url.Parse(string(c.SMTPURL)) // likewise
	p := &mailer{server: server, from: sender, base: base, queue: make(chan email, emailsMax), pause: emailPause, wait: emailWait}
	go p.run(ctx)
	return p.send
}

// send queues an email. It does not block.
func (p *mailer) send(to, token string) { p.enqueue(email{to: to, token: token}) }

func (p *mailer) enqueue(l email) {
	select {
	case p.queue <- l:
	default:
		slog.Error("an email was dropped: too many wait for the mail server", "to", l.to)
	}
}

func (p *mailer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-p.queue:
			p.deliver(ctx, l)
		}
	}
}

func (p *mailer) deliver(ctx context.Context, l email) {
	err := p.transmit(ctx, l)
	l.tries++
	switch {
	case err == nil:
	case l.tries == emailTries || final(err):
		// The server may quote the email; the token must not get into the log.
		said := strings.ReplaceAll(err.Error(), l.token, "(token)")
		slog.Error("an email could not be sent", "to", l.to, "tries", l.tries, "error", said)
	default:
		p.retryLater(l)
	}
}

// final reports whether another attempt would fail in the same way.
// source: RFC 5321 section 4.2.1
func final(err error) bool {
	var refusal *textproto.Error
	return errors.Is(err, errNoAddress) || errors.As(err, &refusal) && refusal.Code/100 == 5
}

// retryLater queues an email again after a pause.
func (p *mailer) retryLater(l email) {
	if p.waiting.Add(1) > emailsMax {
		p.waiting.Add(-1)
		slog.Error("an email was dropped: too many wait for a retry", "to", l.to)
		return
	}
	pause := p.pause
	for range l.tries - 1 {
		pause *= 10
	}
	time.AfterFunc(pause, func() {
		p.waiting.Add(-1)
		p.enqueue(l)
	})
}

// transmit sends one email. It encrypts the connection if the server can, and never sends
// a password unencrypted to another machine.
func (p *mailer) transmit(ctx context.Context, l email) error {
	to, err := mail.ParseAddress(l.to)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAddress, err)
	}
	// Omit the display name that was registered with the address.
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
	_ = c.Quit() // the server has accepted the email
	return nil
}

// mailbox formats an address for the envelope, quoted if necessary.
func mailbox(a *mail.Address) string {
	bare := mail.Address{Address: a.Address}
	return strings.TrimSuffix(strings.TrimPrefix(bare.String(), "<"), ">")
}

func (p *mailer) dial(ctx context.Context) (net.Conn, error) {
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

func (p *mailer) prepare(c *smtp.Client) error {
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

// text returns the email as it is transmitted. source: RFC 5322
func (p *mailer) text(to *mail.Address, token string) string {
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
