package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"sync"
	"time"

	"parley/client/api"
)

// tokens keeps one access token and renews it before it expires. Concurrent calls that
// need a new token share one request.
type tokens struct {
	credentials Credentials

	mu      sync.Mutex
	token   string
	renewAt time.Time
	flight  *flight
}

// flight is a token request in progress.
type flight struct {
	done  chan struct{}
	token string
	err   error
}

// get returns a token that is still valid, or waits for a new one.
func (t *tokens) get(ctx context.Context, c *Session) (string, error) {
	t.mu.Lock()
	if t.token != "" && c.clock().Before(t.renewAt) {
		defer t.mu.Unlock()
		return t.token, nil
	}
	f := t.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		t.flight = f
		// The request outlives the call that started it, because other calls wait for it
		// too.
		go t.renew(context.WithoutCancel(ctx), c, f)
	}
	t.mu.Unlock()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-f.done:
		return f.token, f.err
	}
}

func (t *tokens) renew(ctx context.Context, c *Session, f *flight) {
	token, renewAt, err := t.obtain(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flight = nil
	if f.err = err; err == nil {
		f.token, t.token, t.renewAt = token, token, renewAt
	}
	close(f.done)
}

// obtain returns a token from the client's file, else requests one from the server.
func (t *tokens) obtain(ctx context.Context, c *Session) (token string, renewAt time.Time, err error) {
	if saved, ok := c.loadToken(t.credentials); ok {
		return saved.Token, saved.RenewAt, nil
	}
	asked := c.clock()
	fetched, err := c.fetchToken(ctx, t.credentials)
	if err != nil {
		return "", time.Time{}, err
	}
	life := time.Duration(fetched.ExpiresIn) * time.Second
	renewAt = asked.Add(life - min(time.Minute, life/5))
	c.saveToken(t.credentials, fetched.AccessToken, renewAt)
	return fetched.AccessToken, renewAt, nil
}

// drop forgets a token that the server refused, unless it has been renewed since.
func (t *tokens) drop(c *Session, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.discardToken(token)
	if t.token == token {
		t.token = ""
	}
}

// Token returns an access token that is still valid, for use outside this package.
func (c *Session) Token(ctx context.Context) (string, error) {
	if c.tokens == nil {
		return "", ErrNoCredentials
	}
	return c.tokens.get(ctx, c)
}

func (c *Session) fetchToken(ctx context.Context, credentials Credentials) (*api.Token, error) {
	// RFC 6749 section 2.3.1: both halves are form-encoded before Basic joins them.
	pair := url.QueryEscape(credentials.ClientID.String()) + ":" + url.QueryEscape(credentials.ClientSecret)
	k := call{
		route: post("/oauth/token").forAnyone().idempotent(),
		raw:   []byte("grant_type=client_credentials"),
		header: http.Header{
			"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(pair))},
			"Content-Type":  {"application/x-www-form-urlencoded"},
		},
	}
	var out api.Token
	if _, err := c.do(ctx, k, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
