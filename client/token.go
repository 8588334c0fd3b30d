package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"parley/client/api"
	"parley/client/secretfile"
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

// WithTokenFile stores the access token in a file, mode 0600, so that short-lived
// programs share one token while it is valid. Several may use the file at once, because
// it is replaced atomically. It names the server and the client that the token is for,
// and is not used for others. A file that is missing, damaged or readable by others
// counts as no token, and a failure to write it fails no call.
func WithTokenFile(path string) Option { return func(c *Session) { c.tokenFile = path } }

// savedToken is the content of a token file.
type savedToken struct {
	Version int `json:"version"`
	// Server and ClientID are the server that issued the token and the client that it is
	// for.
	Server   string `json:"server"`
	ClientID string `json:"client_id"`
	Token    string `json:"access_token"`
	// RenewAt is before the token expires.
	RenewAt time.Time `json:"renew_at"`
}

// tokenLifeMax is longer than any token lives. A saved token with a longer life was saved
// while the clock was wrong.
const tokenLifeMax = 24 * time.Hour

// loadToken returns the saved token for this client's server and credentials if it is
// still valid.
func (c *Session) loadToken(credentials Credentials) (savedToken, bool) {
	saved, ok := c.readToken()
	now := c.clock()
	return saved, ok && saved.Server == c.base && saved.ClientID == credentials.ClientID.String() &&
		now.Before(saved.RenewAt) && saved.RenewAt.Before(now.Add(tokenLifeMax))
}

func (c *Session) readToken() (saved savedToken, ok bool) {
	if c.tokenFile == "" {
		return saved, false
	}
	text, err := secretfile.Read(c.tokenFile)
	if err != nil || json.Unmarshal(text, &saved) != nil {
		return savedToken{}, false
	}
	return saved, saved.Version == 1 && saved.Token != ""
}

// saveToken stores a token for the next program. A failure is ignored.
func (c *Session) saveToken(credentials Credentials, token string, renewAt time.Time) {
	if c.tokenFile == "" {
		return
	}
	text, err := json.Marshal(savedToken{Version: 1, Server: c.base, ClientID: credentials.ClientID.String(), Token: token, RenewAt: renewAt.UTC()})
	if err == nil {
		_ = secretfile.Replace(c.tokenFile, append(text, '\n'))
	}
}

// discardToken removes a token that the server refused, unless another program has
// saved a newer one.
func (c *Session) discardToken(token string) {
	if saved, ok := c.readToken(); ok && saved.Token == token {
		_ = os.Remove(c.tokenFile)
	}
}
