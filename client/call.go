package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrNoCredentials means that a call needs credentials and the client has none.
var ErrNoCredentials = errors.New("the client has no credentials: register or pass WithCredentials")

// responseBytesMax bounds the bytes read of one answer: the largest page is 200 rows of
// two payloads each.
const responseBytesMax = 96 << 20

// retryWaitMax is the longest pause before a retry. If the server asks for more, the
// client does not retry.
const retryWaitMax = 30 * time.Second

// call is one request to make.
type call struct {
	route
	query  url.Values
	header http.Header
	// in is marshalled as the body unless nil; raw is a finished body.
	in  any
	raw []byte
	// sign returns the message signature of a body.
	sign func(body []byte) string
}

// do makes the call, retries it where that is safe, and decodes the answer into out
// unless nil. It returns the answer's header.
func (c *Session) do(ctx context.Context, k call, out any) (http.Header, error) {
	if k.in != nil {
		body, err := json.Marshal(k.in)
		if err != nil {
			return nil, fmt.Errorf("marshal request: %w", err)
		}
		k.raw = body
	}
	renewed := false
	for attempt := 1; ; attempt++ {
		header, token, err := c.once(ctx, k, out)
		if err == nil {
			return header, nil
		}
		if token == "" && !k.public { // getting a token failed, and has been retried enough
			return nil, err
		}
		if token != "" && refusedToken(err) {
			if c.tokens.drop(c, token); !renewed {
				renewed = true
				attempt--
				continue
			}
		}
		wait, again := c.pause(k, attempt, err)
		if !again || ctx.Err() != nil {
			return nil, err
		}
		if sleep(ctx, wait) != nil {
			return nil, err
		}
	}
}

// refusedToken reports whether the server rejected the request because of its token.
func refusedToken(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusUnauthorized && e.Code != InvalidClient
}

// pause reports whether a failed call may be retried, and after how long.
func (c *Session) pause(k call, attempt int, err error) (time.Duration, bool) {
	if attempt >= c.attempts {
		return 0, false
	}
	wait := c.backoff << min(attempt-1, 10)
	wait = min(wait/2+rand.N(wait/2+1), retryWaitMax)
	var e *Error
	var local *localError
	switch {
	case errors.As(err, &local):
		return 0, false
	case !errors.As(err, &e):
		return wait, k.repeatable || neverSent(err)
	case e.RetryAfter > retryWaitMax:
		return 0, false
	case e.Code == Overloaded:
		return max(wait, e.RetryAfter), true
	case e.Code == OutcomeUnknown || e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout || (e.Status == http.StatusServiceUnavailable && e.Code == ""):
		return max(wait, e.RetryAfter), k.repeatable
	}
	return 0, false
}

// neverSent reports whether no connection was made, so that the server cannot have acted.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// localError is a failure that a retry cannot fix.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// once makes the call once. It returns the token it used even on failure.
func (c *Session) once(ctx context.Context, k call, out any) (_ http.Header, token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	req, token, err := c.request(ctx, k)
	if err != nil {
		return nil, token, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, token, fmt.Errorf("%s %s: %w", k.method, k.path, unwrapURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax+1))
	switch {
	case err != nil:
		return nil, token, fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)
	case len(body) > responseBytesMax:
		return nil, token, &localError{fmt.Errorf("%s %s: the answer is too large", k.method, k.path)}
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, token, readError(resp, body)
	case out == nil || resp.StatusCode == http.StatusNoContent:
		return resp.Header, token, nil
	}
	if text, plain := out.(*plainText); plain {
		*text = plainText(body)
		return resp.Header, token, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return nil, token, &localError{fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)}
	}
	return resp.Header, token, nil
}

// request builds the HTTP request, with a token unless the call is public.
func (c *Session) request(ctx context.Context, k call) (*http.Request, string, error) {
	token := ""
	if !k.public {
		if c.tokens == nil {
			return nil, "", &localError{ErrNoCredentials}
		}
		var err error
		if token, err = c.tokens.get(ctx, c); err != nil {
			return nil, "", err
		}
	}
	address := c.base + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, bytes.NewReader(k.raw))
	if err != nil {
		return nil, token, &localError{err}
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	if k.raw != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if k.sign != nil {
		req.Header.Set(c.ownHeader("X-Svc-Message-Signature"), k.sign(k.raw))
	}
	return req, token, nil
}

// unwrapURL removes the prefix of net/http, which repeats the whole address.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// sleep waits for d, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
