package host

import (
	"net/url"
	"strconv"
)

// Newest reads the first page of a worker, which must be full.
func (c *Caller) Newest(of *Agent) error {
	if !c.isParley {
		return c.ReadPage("/agents/"+strconv.Itoa(int(of.Mailbox))+"/messages?limit=20", of)
	}
	return c.ReadPage("/agents/"+of.ID.String()+"/messages?limit=20", of)
}

// ReadPage reads a page of a worker, which must be full, and checks every message on it.
func (c *Caller) ReadPage(path string, of *Agent) error {
	body, err := Get(c.Conn, path, of.Org.Token)
	if err != nil {
		return err
	}
	var o order
	var to [36]byte
	_, _ = of.ID.AppendText(to[:0])
	p, err := c.answers.readPage(body, func(m Message) error {
		key, sound := c.Payloads.Read(m.Payload)
		switch {
		case !sound:
			return Wrong("a payload that nobody sent")
		case c.isParley && string(m.toAgent) != string(to[:]):
			return Wrong("a message to another agent")
		}
		return o.next(key)
	})
	if err == nil && p.count != PageSize {
		err = Wrong("a page of " + strconv.Itoa(p.count) + " instead of 20 messages")
	}
	return err
}

// Step reads a page of a worker and returns the cursor of the next one.
func (c *Caller) Step(path string, of *Agent, size int) (cursor string, err error) {
	body, err := Get(c.Conn, path, of.Org.Token)
	if err != nil {
		return "", err
	}
	p, err := ReadPage(body, func(Message) error { return nil })
	if err == nil && (p.count != size || len(p.Cursor) == 0) {
		err = Wrong("an inbox that ends before all was read")
	}
	return "&cursor=" + url.QueryEscape(p.Cursor), err
}
