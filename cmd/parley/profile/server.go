package profile

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"parley/client"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

// errPlainHTTP: credentials would cross a network unencrypted.
var errPlainHTTP = errors.New("http:// sends the credentials unencrypted to another machine: use https://, or add --allow-http")

// CheckTransport refuses an address with http to another machine unless that is
// allowed.
func CheckTransport(server string, allowed bool) error {
	if _, err := client.New(server); err != nil {
		return err
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	if allowed || u.Scheme != "http" || parley.IsLoopback(u.Hostname()) {
		return nil
	}
	return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s: %w", server, errPlainHTTP)}
}

// sameServer reports whether two addresses are of the same server.
func sameServer(a, b string) bool {
	x, errX := canonicalServer(a)
	y, errY := canonicalServer(b)
	return errX == nil && errY == nil && x == y
}

// canonicalServer returns an address with scheme and host in lower case, with a
// port, and without slashes at the end.
func canonicalServer(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// server returns the address of the server that issued the account's credentials.
// The secret is sent to no other: a different address on the command line is a
// mistake or an attack.
func (p *Flags) server(a *Account, directory string) (string, error) {
	if p.URL != "" && !sameServer(p.URL, a.URL) {
		return "", program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("the profile %s belongs to %s, so its secret is not sent to %s: choose another with --profile (or, if the server has moved, change \"url\" in %s)",
			directory, a.URL, p.URL, CredentialsFile)}
	}
	return a.URL, CheckTransport(a.URL, a.AllowHTTP || p.AllowHTTP)
}
