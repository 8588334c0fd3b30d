package host

import (
	"context"
	"net/url"
	"strconv"

	"parley/bench/wire"
)

// Reader reads inbox pages and checks them.
type Reader struct {
	conn     *wire.HTTP
	answers  answers
	payloads *Payloads
	token    string
	Agents   int
	workers  []*Agent // nil for a plain peer
	path     []byte
}

func NewReader(ctx context.Context, h *Host) (*Reader, error) {
	conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
	if err != nil {
		return nil, err
	}
	r := &Reader{conn: conn, payloads: h.Payloads, Agents: h.Params.Agents, token: h.Endpoint().Token}
	if h.Deployment != nil {
		r.token, r.workers = h.Deployment.ReceivingOrg.Token, h.Deployment.Recipients
	}
	return r, nil
}

func (r *Reader) Close() error { return r.conn.Close() }

// Newest reads the first page of a worker, which must be full.
func (r *Reader) Newest(worker int) (page, error) {
	r.path = append(r.path[:0], "/agents/"...)
	if r.workers == nil {
		r.path = strconv.AppendInt(r.path, int64(worker), 10)
	} else {
		r.path, _ = r.workers[worker].ID.AppendText(r.path)
	}
	r.path = append(r.path, "/messages?limit=20"...)
	return r.Read(string(r.path), r.owner(worker))
}

// owner returns the recipient of the messages of a page; nil if the system does not
// report it.
func (r *Reader) owner(worker int) *Agent {
	if r.workers == nil {
		return nil
	}
	return r.workers[worker]
}

// Read reads a page, which must be full, and checks every message on it.
func (r *Reader) Read(path string, owner *Agent) (page, error) {
	body, err := Get(r.conn, path, r.token)
	if err != nil {
		return page{}, err
	}
	var o order
	var to [36]byte
	if owner != nil {
		_, _ = owner.ID.AppendText(to[:0])
	}
	p, err := r.answers.readPage(body, func(m Message) error {
		key, sound := r.payloads.Read(m.Payload)
		switch {
		case !sound:
			return Wrong("a payload that nobody sent")
		case owner != nil && string(m.toAgent) != string(to[:]):
			return Wrong("a message to another agent")
		}
		return o.next(key)
	})
	switch {
	case err != nil:
		return page{}, err
	case p.count != PageSize:
		return page{}, Wrong("a page of " + strconv.Itoa(p.count) + " instead of 20 messages")
	}
	return p, nil
}

// Step reads a page and returns the cursor of the next one.
func (r *Reader) Step(path string, size int) (cursor string, err error) {
	body, err := Get(r.conn, path, r.token)
	if err != nil {
		return "", err
	}
	p, err := ReadPage(body, func(Message) error { return nil })
	switch {
	case err != nil:
		return "", err
	case p.count != size || len(p.Cursor) == 0:
		return "", Wrong("an inbox that ends before all was read")
	}
	return "&cursor=" + url.QueryEscape(p.Cursor), nil
}
