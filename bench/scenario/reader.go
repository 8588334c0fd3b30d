package scenario

import (
	"context"
	"strconv"

	"parley/bench/wire"
)

// reader reads inbox pages and checks them.
type reader struct {
	conn     *wire.HTTP
	answers  answers
	payloads *payloads
	token    string
	agents   int
	workers  []*agent // nil for a plain peer
	request  []byte
	path     []byte
}

func newReader(ctx context.Context, h *Host) (*reader, error) {
	conn, err := wire.DialHTTP(ctx, h.Endpoint().Address)
	if err != nil {
		return nil, err
	}
	r := &reader{conn: conn, payloads: h.payloads, agents: h.params.Agents, token: h.Endpoint().Token}
	if h.world != nil {
		r.token, r.workers = h.world.acme.token, h.world.workers
	}
	return r, nil
}

func (r *reader) Close() error { return r.conn.Close() }

// newest reads the first page of a worker, which must be full.
func (r *reader) newest(worker int) (page, error) {
	r.path = append(r.path[:0], "/agents/"...)
	if r.workers == nil {
		r.path = strconv.AppendInt(r.path, int64(worker), 10)
	} else {
		r.path, _ = r.workers[worker].id.AppendText(r.path)
	}
	r.path = append(r.path, "/messages?limit=20"...)
	return r.read(string(r.path), r.owner(worker))
}

// owner returns the recipient of the messages of a page; nil if the system does not
// report it.
func (r *reader) owner(worker int) *agent {
	if r.workers == nil {
		return nil
	}
	return r.workers[worker]
}

// read reads a page, which must be full, and checks every message on it.
func (r *reader) read(path string, owner *agent) (page, error) {
	r.request = wire.AppendRequest(r.request[:0], "GET", path, r.token, nil, nil)
	answer, err := r.conn.Do(r.request)
	if err != nil {
		return page{}, err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return page{}, err
	}
	var o order
	var to [36]byte
	if owner != nil {
		uuid(owner.id).put(to[:])
	}
	p, err := r.answers.readPage(answer.Body, func(m message) error {
		key, sound := r.payloads.read(m.payload)
		switch {
		case !sound:
			return wrong("a payload that nobody sent")
		case owner != nil && string(m.toAgent) != string(to[:]):
			return wrong("a message to another agent")
		}
		return o.next(key)
	})
	switch {
	case err != nil:
		return page{}, err
	case p.count != pageSize:
		return page{}, wrong("a page of " + strconv.Itoa(p.count) + " instead of 20 messages")
	}
	return p, nil
}

// step reads a page and returns the cursor of the next one.
func (r *reader) step(path string, size int) (cursor string, err error) {
	r.request = wire.AppendRequest(r.request[:0], "GET", path, r.token, nil, nil)
	answer, err := r.conn.Do(r.request)
	if err != nil {
		return "", err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return "", err
	}
	p, err := readPage(answer.Body, func(message) error { return nil })
	switch {
	case err != nil:
		return "", err
	case p.count != size || len(p.cursor) == 0:
		return "", wrong("an inbox that ends before all was read")
	}
	return "&cursor=" + escapeCursor(p.cursor), nil
}
