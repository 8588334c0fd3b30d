package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// retryAfterMax bounds the pause that a target may ask for. // docs: webhooks.md
const retryAfterMax = 24 * time.Hour

// The errors that owners see for failed attempts. The list is closed, because the texts
// of Go errors contain addresses, resolvers and routes of the server's own network.
const (
	faultBlocked     = "the target's address is not public"
	faultName        = "the host name does not resolve"
	faultConnect     = "no connection in time"
	faultTimeout     = "no answer in time"
	faultRefused     = "connection refused"
	faultUnreachable = "the host is unreachable"
	faultBroken      = "the connection broke before the answer"
	faultTrust       = "TLS: the certificate is not trusted"
	faultHostname    = "TLS: the certificate is for another host"
	faultCertificate = "TLS: the certificate is expired or not valid"
	faultPlain       = "TLS: the target does not speak TLS"
	faultTLS         = "TLS: the handshake failed"
	faultHTTP        = "the answer is not HTTP"
	faultEnded       = "the attempt was ended by a shutdown"
	faultOther       = "the request failed"
	faultRedirect    = "redirects are not followed"
	faultScheme      = "the target is not an https URL"
	faultRender      = "the body could not be read"
	faultSecret      = "the post could not be signed"
)

// sayFault describes a transport error to an owner.
func sayFault(err error) string {
	var name *net.DNSError
	var broken net.Error
	switch {
	case errors.Is(err, ErrBlocked):
		return faultBlocked
	case errors.As(err, &name):
		return faultName
	case errors.Is(err, syscall.ECONNREFUSED):
		return faultRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return faultUnreachable
	case isDial(err) && errors.As(err, &broken) && broken.Timeout():
		return faultConnect
	case errors.Is(err, context.DeadlineExceeded):
		return faultTimeout
	}
	if text := sayTLSFault(err); text != "" {
		return text
	}
	switch {
	case errors.Is(err, context.Canceled):
		return faultEnded
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return faultBroken
	case errors.As(err, &broken) && broken.Timeout():
		return faultConnect
	case strings.Contains(err.Error(), "malformed"), strings.Contains(err.Error(), "headers exceeded"):
		return faultHTTP
	}
	return faultOther
}

func isDial(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

// sayTLSFault describes a TLS error to an owner. It returns "" for other errors.
func sayTLSFault(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return faultTrust
	case errors.As(err, &hostname):
		return faultHostname
	case errors.As(err, &invalid):
		return faultCertificate
	case errors.As(err, &verify):
		return faultTrust
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return faultPlain
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: "):
		return faultTLS
	}
	return ""
}

// sayStatus describes an answer that is not 2xx to an owner.
func sayStatus(status int) string {
	if status >= 300 && status < 400 {
		return "HTTP " + strconv.Itoa(status) + ": " + faultRedirect
	}
	return strings.TrimSpace("HTTP " + strconv.Itoa(status) + " " + http.StatusText(status))
}

// parseRetryAfter parses seconds or a date and returns at most 24 h. It returns 0 if the
// header is absent, in the past or invalid. // source: RFC 9110 section 10.2.3
func parseRetryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(retryAfterMax/time.Second) {
			return retryAfterMax
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, date.Sub(now)), retryAfterMax)
}
