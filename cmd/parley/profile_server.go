package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"parley/cmd/parley/program"
	"parley/http/client"
)

// errPlainHTTP says that credentials would cross a network unencrypted.
var errPlainHTTP = errors.New("http:// to another machine shows the credentials to everybody on the way: use https://, or add --allow-http")

// checkTransport refuses plain http to another machine unless that was allowed.
func checkTransport(server string, allowed bool) error {
	if _, err := client.New(server); err != nil {
		return err
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	if allowed || u.Scheme != "http" || isLoopback(u.Hostname()) {
		return nil
	}
	return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s: %w", server, errPlainHTTP)}
}

// sameServer reports whether two addresses are spellings of one server's.
func sameServer(a, b string) bool {
	x, errX := canonicalServer(a)
	y, errY := canonicalServer(b)
	return errX == nil && errY == nil && x == y
}

// canonicalServer writes scheme and host in lower case, names the port, and
// drops slashes at the end.
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

// server is the one that the account's credentials are for. The secret goes
// nowhere else: another address on the command line is a mistake or a trap.
func (p *profileFlags) server(a *account, directory string) (string, error) {
	if p.URL != "" && !sameServer(p.URL, a.URL) {
		return "", program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("the profile %s belongs to %s, and its secret is not sent to %s: choose another with --profile (or, if the server has moved, change \"url\" in %s)",
			directory, a.URL, p.URL, credentialsFile)}
	}
	return a.URL, checkTransport(a.URL, a.AllowHTTP || p.AllowHTTP)
}
