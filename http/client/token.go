package client

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"sync"
	"time"

	"parley/http/api"
)

// tokens keeps one access token and renews it before it expires. However many
// calls need a new one at once, one request is made.
type tokens struct {
	credentials Credentials

	mu      sync.Mutex
	token   string
	renewAt time.Time
	flight  *flight
}

// flight is a token request under way.
type flight struct {
	done  chan struct{}
	token string
	err   error
}

// get gives a token with life left, or waits for a new one.
func (t *tokens) get(ctx context.Context, c *Client) (string, error) {
	t.mu.Lock()
	if t.token != "" && c.clock().Before(t.renewAt) {
		defer t.mu.Unlock()
		return t.token, nil
	}
	f := t.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		t.flight = f
		// The request outlives the call that asked for it: others wait for it too.
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

func (t *tokens) renew(ctx context.Context, c *Client, f *flight) {
	asked := c.clock()
	token, err := c.fetchToken(ctx, t.credentials)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flight = nil
	if f.err = err; err == nil {
		life := time.Duration(token.ExpiresIn) * time.Second
		f.token, t.token = token.AccessToken, token.AccessToken
		t.renewAt = asked.Add(life - min(time.Minute, life/5))
	}
	close(f.done)
}

// drop forgets the token that the server refused, unless it was renewed since.
func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
}

// Token gives an access token with life left, for use outside this package.
func (c *Client) Token(ctx context.Context) (string, error) {
	if c.tokens == nil {
		return "", ErrNoCredentials
	}
	return c.tokens.get(ctx, c)
}

func (c *Client) fetchToken(ctx context.Context, credentials Credentials) (*api.Token, error) {
	// RFC 6749 section 2.3.1: both halves are form-encoded before Basic joins them.
	pair := url.QueryEscape(credentials.ClientID.String()) + ":" + url.QueryEscape(credentials.ClientSecret)
	k := call{
		method: http.MethodPost, path: "/oauth/token", public: true, repeatable: true,
		raw: []byte("grant_type=client_credentials"),
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
