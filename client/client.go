package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Credentials authenticate an organization. They marshal to JSON with the secret
// included: store them like a password.
type Credentials = api.Credentials

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base     string
	http     *http.Client
	brand    string
	clock    parley.Clock
	timeout  time.Duration
	attempts int
	backoff  time.Duration
	progress func(ProofProgress)
	tokens   *tokens
	// tokenFile stores the token between runs. If empty, the token is kept only in
	// memory.
	tokenFile string
	// logWait is how long CheckKeyLog waits for an entry that is not in the log yet.
	logWait time.Duration
}

// Option sets one property of a new Client.
type Option func(*Client)

// WithHTTPClient sets the HTTP client whose transport is used. Redirects are never
// followed. Its Timeout is not used, because it would cut streams.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithCredentials sets the credentials that the client authenticates with.
func WithCredentials(credentials Credentials) Option {
	return func(c *Client) { c.tokens = &tokens{credentials: credentials} }
}

// WithBrand sets the word that the server uses in header names and in its own
// message types; the default is svc.
func WithBrand(brand string) Option { return func(c *Client) { c.brand = brand } }

// WithClock sets the clock that determines the age of tokens. The default is time.Now.
func WithClock(clock parley.Clock) Option { return func(c *Client) { c.clock = clock } }

// WithTimeout bounds one attempt of an ordinary call. The default is 30 s. Syncs and
// streams have bounds of their own.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetries sets the total number of attempts of a call that is safe to retry (default
// 4), and the pause before the second attempt (default 200 ms). The pause doubles with
// each further attempt, and is extended if the server asks for more.
func WithRetries(attempts int, backoff time.Duration) Option {
	return func(c *Client) { c.attempts, c.backoff = max(attempts, 1), backoff }
}

// WithProofProgress sets a function that Register calls from time to time, never
// concurrently, while it computes the proof.
func WithProofProgress(f func(ProofProgress)) Option { return func(c *Client) { c.progress = f } }

// ErrBaseURL means that a server's address is not an absolute http or https URL.
var ErrBaseURL = errors.New("the base URL should be an http or https address such as https://parley.example:8443, without user and query")

// New returns a client of the server at baseURL.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, ErrBaseURL // without the parser's error, which may quote a password
	}
	if !parley.Dialable(u) || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%q: %w", u.Redacted(), ErrBaseURL)
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), brand: "svc",
		clock: time.Now, timeout: 30 * time.Second, attempts: 4, backoff: 200 * time.Millisecond, logWait: keyLogWait,
	}
	for _, opt := range opts {
		opt(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	own := *c.http
	own.Timeout = 0
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c, nil
}

// newTransport keeps more connections to the one server than net/http does by default.
func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 64
	return t
}

// Close closes the idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Authenticated returns a client of the same server that uses the credentials.
func (c *Client) Authenticated(credentials Credentials) *Client {
	other := *c
	other.tokens, other.tokenFile = &tokens{credentials: credentials}, ""
	return &other
}

// BaseURL returns the address the client was created with, without a trailing slash.
func (c *Client) BaseURL() string { return c.base }

// Brand returns the word that the client uses in header names.
func (c *Client) Brand() string { return c.brand }

// MessageType returns the reserved type of the server's brand that ends in name, such as
// svc.v1.dm for dm.
func (c *Client) MessageType(name string) string { return c.brand + ".v1." + name }

func (c *Client) header(name string) string {
	if c.brand == "" {
		return "X-" + name
	}
	return "X-" + strings.ToUpper(c.brand[:1]) + c.brand[1:] + "-" + name
}
