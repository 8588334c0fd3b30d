package target

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// Remote is a server that already runs. The bench registers its own organizations on it,
// and neither starts nor stops it.
type Remote struct {
	// Label is its name in reports.
	Label string
	// URL is its public address, and AdminURL the operator's address if the bench can
	// reach it.
	URL, AdminURL string
	// AdminToken is the token for operator calls.
	AdminToken string
	// PID is the root of its process tree if it runs on this machine; 0 if not.
	PID int
}

// Name implements Target.
func (r *Remote) Name() string { return r.Label }

// Start implements Target.
func (r *Remote) Start(ctx context.Context) (Endpoint, error) {
	address, err := hostPort(r.URL)
	if err != nil {
		return Endpoint{}, err
	}
	endpoint := Endpoint{Address: address, Kind: Parley, AdminToken: r.AdminToken}
	if r.AdminURL != "" {
		if endpoint.Admin, err = hostPort(r.AdminURL); err != nil {
			return Endpoint{}, err
		}
	}
	endpoint.Version, err = healthy(ctx, "http://"+address)
	return endpoint, err
}

// hostPort returns the host and port of a plain http URL. The generator does not support
// TLS, because its cost would be measured as the server's.
func hostPort(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%q should be http://host:port", text)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Processes implements Target.
func (r *Remote) Processes() []int {
	if r.PID == 0 {
		return nil
	}
	return []int{r.PID}
}

// Kill implements Target. It always returns ErrNotOurs.
func (r *Remote) Kill() error { return ErrNotOurs }

// Stop implements Target. It does nothing: the server keeps running.
func (r *Remote) Stop() error { return nil }
