package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	"parley/client/parley"
)

// Fixed bounds of one attempt.
const (
	answerHeadMax = 16 << 10
	answerBodyMax = 64 << 10
	// drainWait is how long the body of an answer may take once its status is known. It
	// is read only to reuse the connection.
	drainWait = time.Second
	// Bounds on idle connections: their number, and how long they are kept.
	idleConnectionsMax = 1024
	idleConnectionWait = 30 * time.Second
)

// ErrRoots means that the additional roots contain no certificate.
var ErrRoots = errors.New("the further roots hold no PEM certificate")

// client makes single attempts.
type client struct {
	transport *http.Transport
	clock     parley.Clock
	brand     string
	agent     string
	timeout   time.Duration
	plain     bool // http is allowed
}

func newClient(o Options) (*client, error) {
	roots, err := trust(o.FurtherRoots)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: o.ConnectTimeout, Resolver: o.Guard.resolver, Control: o.Guard.control}
	return &client{
		clock: o.Clock, brand: o.Brand, agent: o.Agent, timeout: o.Timeout, plain: o.Guard.allow.PlainHTTP,
		transport: &http.Transport{
			// No proxy, whatever the environment says.
			Proxy:               nil,
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: o.ConnectTimeout,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: roots,
				ClientSessionCache: tls.NewLRUClientSessionCache(idleConnectionsMax),
			},
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: answerBodyMax, SendPingTimeout: o.Timeout, PingTimeout: o.ConnectTimeout},
			DisableCompression:     true,
			MaxIdleConns:           idleConnectionsMax,
			MaxIdleConnsPerHost:    o.flightsMax(),
			IdleConnTimeout:        idleConnectionWait,
			MaxResponseHeaderBytes: answerHeadMax,
		},
	}, nil
}

// trust returns the system's roots plus those of a PEM text, or nil for the system's
// alone.
func trust(further []byte) (*x509.CertPool, error) {
	if len(further) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(further) {
		return nil, ErrRoots
	}
	return roots, nil
}

// attempt sends one post and waits for the status of the answer. It calls the transport
// directly, which follows no redirect and keeps no cookie.
func (c *client) attempt(ctx context.Context, p *Post) Result {
	began := c.clock()
	if scheme := p.Target.url.Scheme; scheme != schemeHTTPS && !(c.plain && scheme == schemeHTTP) {
		return Result{Error: faultScheme, Blocked: true}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body := p.Body
	if p.Render != nil {
		var err error
		if body, err = p.Render(ctx); err != nil {
			return Result{Error: faultRender, Duration: c.clock().Sub(began)}
		}
		if body == nil {
			return Result{Status: http.StatusNoContent, Duration: c.clock().Sub(began)}
		}
	}
	request, err := c.request(ctx, p, body, began)
	if err != nil {
		return Result{Error: faultSecret, Duration: c.clock().Sub(began)}
	}
	response, err := c.transport.RoundTrip(request)
	if err == nil && ctx.Err() != nil {
		// The answer arrived after the attempt had ended: too late.
		_ = response.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		return Result{Error: c.say(ctx, err), Blocked: errors.Is(err, ErrBlocked), Duration: c.clock().Sub(began)}
	}
	ended := c.clock()
	result := Result{Status: response.StatusCode, Duration: ended.Sub(began)}
	if !result.Delivered() {
		result.Error = sayStatus(result.Status)
		result.RetryAfter = parseRetryAfter(response.Header.Get("Retry-After"), ended)
	}
	drop(response, cancel)
	return result
}

// say describes a failure to the owner. It checks first whether the attempt's time is
// over, because that causes other errors.
func (c *client) say(ctx context.Context, err error) string {
	if text := sayFault(err); ctx.Err() == nil || text == faultConnect {
		return text
	}
	return sayFault(ctx.Err())
}

func (c *client) request(ctx context.Context, p *Post, body []byte, now time.Time) (*http.Request, error) {
	target := p.Target.url
	request := (&http.Request{
		Method: http.MethodPost, URL: &target, Host: target.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		Header: http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {c.agent},
			// An empty value is not sent, but allows the transport to repeat the request
			// when an idle connection turns out to be dead.
			"Idempotency-Key": {},
		},
	}).WithContext(ctx)
	if p.Traceparent != "" {
		request.Header.Set("Traceparent", p.Traceparent)
	}
	if p.Render != nil {
		maps.Copy(request.Header, p.Header)
		return request, nil
	}
	return request, Sign(request.Header, c.brand, p.ID, now, body, p.Secrets...)
}

// drop reads the rest of an answer within bounds, so that its connection can be reused;
// beyond them it closes the connection. What it reads is discarded. A connection that the
// target wants to upgrade to another protocol is not bound to the attempt's context and
// is closed at once.
func drop(response *http.Response, abort context.CancelFunc) {
	body := response.Body
	if body != http.NoBody && response.StatusCode != http.StatusSwitchingProtocols {
		timer := time.AfterFunc(drainWait, abort)
		_, _ = io.Copy(io.Discard, io.LimitReader(body, answerBodyMax))
		timer.Stop()
	}
	_ = body.Close()
}
