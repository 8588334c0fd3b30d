package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"parley/client/api"
	"parley/client/parley"
)

// Credentials authenticate an organization. They marshal to JSON with the secret
// included: store them like a password.
type Credentials = api.Credentials

// Session calls one server, with the credentials of one organization or without. It is
// safe for concurrent use. Its fields make the calls, by subject.
type Session struct {
	Agents    Agents
	Keys      Keys
	Messages  Messages
	Groups    Groups
	Webhooks  Webhooks
	Org       Org
	MLS       MLS
	Directory Directory
	KeyLog    KeyLog
	A2A       A2A

	// Challenge requests a proof-of-work challenge. It reserves nothing, so it is safe to
	// repeat. Register solves it.
	Challenge Call[api.Register, api.Challenge] `call:"POST /auth/register public repeatable"`
	// Solve submits a proof of work. The secret is returned only here.
	Solve Call[api.Solve, Credentials] `call:"POST /auth/register/solve public"`
	// VerifyEmail submits the token that was mailed to the address given at registration.
	VerifyEmail Call[api.VerifyEmail, api.VerifiedEmail] `call:"POST /auth/verify-email public repeatable"`
	// SigningKeys returns the server's key document. No credentials are needed.
	SigningKeys Fetch[api.SigningKeys] `call:"GET /.well-known/jwks.json public"`
	// Version returns the server's version.
	Version Fetch[api.Version] `call:"GET /version public"`
	// ComplianceInfo returns the service's transparency notice.
	ComplianceInfo Fetch[api.ComplianceInfo] `call:"GET /compliance/info public"`

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
}

// Option sets one property of a new Session.
type Option func(*Session)

// WithHTTPClient sets the HTTP client whose transport is used. Redirects are never
// followed. Its Timeout is not used, because it would cut streams.
func WithHTTPClient(h *http.Client) Option { return func(c *Session) { c.http = h } }

// WithCredentials sets the credentials that the client authenticates with.
func WithCredentials(credentials Credentials) Option {
	return func(c *Session) { c.tokens = &tokens{credentials: credentials} }
}

// WithBrand sets the word that the server uses in header names and in its own
// message types; the default is svc.
func WithBrand(brand string) Option { return func(c *Session) { c.brand = brand } }

// WithClock sets the clock that determines the age of tokens. The default is time.Now.
func WithClock(clock parley.Clock) Option { return func(c *Session) { c.clock = clock } }

// WithTimeout bounds one attempt of an ordinary call. The default is 30 s. Syncs and
// streams have bounds of their own.
func WithTimeout(d time.Duration) Option { return func(c *Session) { c.timeout = d } }

// WithRetries sets the total number of attempts of a call that is safe to retry (default
// 4), and the pause before the second attempt (default 200 ms). The pause doubles with
// each further attempt, and is extended if the server asks for more.
func WithRetries(attempts int, backoff time.Duration) Option {
	return func(c *Session) { c.attempts, c.backoff = max(attempts, 1), backoff }
}

// WithProofProgress sets a function that Register calls from time to time, never
// concurrently, while it computes the proof.
func WithProofProgress(f func(ProofProgress)) Option { return func(c *Session) { c.progress = f } }

// ErrBaseURL means that a server's address is not an absolute http or https URL.
var ErrBaseURL = errors.New("the base URL should be an http or https address such as https://parley.example:8443, without user and query")

// New returns a session with the server at baseURL.
func New(baseURL string, opts ...Option) (*Session, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, ErrBaseURL // without the parser's error, which may quote a password
	}
	if !parley.Dialable(u) || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%q: %w", u.Redacted(), ErrBaseURL)
	}
	c := &Session{
		base: strings.TrimRight(baseURL, "/"), brand: "svc",
		clock: time.Now, timeout: 30 * time.Second, attempts: 4, backoff: 200 * time.Millisecond,
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
	c.connect()
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
func (c *Session) Close() { c.http.CloseIdleConnections() }

// Authenticated returns a session with the same server that uses the credentials.
func (c *Session) Authenticated(credentials Credentials) *Session {
	other := *c
	other.tokens, other.tokenFile = &tokens{credentials: credentials}, ""
	other.connect()
	return &other
}

// connect makes the fields call through this session.
func (c *Session) connect() {
	c.Agents, c.Keys, c.Messages, c.Org = Agents{s: c}, Keys{s: c}, Messages{s: c}, Org{s: c}
	c.Directory, c.KeyLog, c.A2A = Directory{s: c}, KeyLog{s: c}, A2A{c}
	c.bind(reflect.ValueOf(c).Elem())
}

// Clock returns the clock of the session.
func (c *Session) Clock() parley.Clock { return c.clock }

// BaseURL returns the address the client was created with, without a trailing slash.
func (c *Session) BaseURL() string { return c.base }

// Brand returns the word that the client uses in header names.
func (c *Session) Brand() string { return c.brand }

// MessageType returns the reserved type of the server's brand that ends in name, such as
// svc.v1.dm for dm.
func (c *Session) MessageType(name string) string { return c.brand + ".v1." + name }

// ownHeader returns the server's name of a header that begins with the default brand.
func (c *Session) ownHeader(name string) string {
	rest, branded := strings.CutPrefix(name, "X-Svc-")
	switch {
	case !branded:
		return name
	case c.brand == "":
		return "X-" + rest
	}
	return "X-" + strings.ToUpper(c.brand[:1]) + c.brand[1:] + "-" + rest
}

// Health returns the server's health. For an unhealthy server it returns both the report
// and an Error with status 503.
func (c *Session) Health(ctx context.Context) (*api.Health, error) {
	r := get("/health").forAnyone()
	r.repeatable = false
	out, err := fetch[api.Health](ctx, c, r, nil)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusServiceUnavailable {
		var report api.Health
		if json.Unmarshal(e.body, &report) == nil && report.Status != "" {
			return &report, err
		}
	}
	return out, err
}
