package scenario

import (
	"context"
	"errors"
	"strconv"

	"parley"
	"parley/bench/wire"
)

// herald broadcasts to a group on one connection.
type herald struct {
	*caller
	group   *assembly
	from    *agent
	request *directRequest
}

func (h *Host) herald(ctx context.Context, g *assembly, from *agent) (*herald, error) {
	c, err := h.caller(ctx)
	if err != nil {
		return nil, err
	}
	return &herald{caller: c, group: g, from: from, request: h.direct("/messages", from, &agent{handle: g.handle})}, nil
}

// recipients returns how many copies a broadcast has.
func (g *assembly) recipients() int { return len(g.members) - 1 }

// cast broadcasts the message of key, checks the answer and returns the broadcast's id.
func (c *herald) cast(key Key) (uuid, error) {
	c.payloads.write(c.request.bytes[c.request.payload:], key)
	sent := cast{key: key, group: c.group, from: c.from.box}
	answer, err := c.conn.Do(c.request.bytes)
	if err != nil {
		if !errors.Is(err, wire.ErrClosing) { // which means that nothing was sent
			c.book.lostCasts = append(c.book.lostCasts, sent)
		}
		return uuid{}, err
	}
	if answer.Status != 201 {
		err, known := refusal(answer)
		if !known {
			c.book.lostCasts = append(c.book.lostCasts, sent)
		}
		return uuid{}, err
	}
	told, err := readReceipt(answer.Body)
	if err != nil {
		c.book.lostCasts = append(c.book.lostCasts, sent)
		return uuid{}, err
	}
	sent.id = told.broadcast
	c.book.casts = append(c.book.casts, sent)
	return told.broadcast, c.judge(told, key)
}

// receipt holds the members of the answer to a broadcast that are checked.
type receipt struct {
	copy, broadcast uuid
	recipients      string
	handle, payload []byte
}

func readReceipt(body []byte) (r receipt, err error) {
	walk := membersOf(body)
	identified := false
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(name) {
		case "id":
			r.copy, _ = parseUUID(plainText(value))
		case "broadcast_id":
			r.broadcast, identified = parseUUID(plainText(value))
		case "recipient_count":
			r.recipients = string(value)
		case "group_handle":
			r.handle = plainText(value)
		case "encrypted_payload":
			r.payload = plainText(value)
		}
	}
	if !walk.ended() || !identified {
		return r, wrong("no UUID as broadcast_id")
	}
	return r, nil
}

func (c *herald) judge(told receipt, key Key) error {
	got, sound := c.payloads.read(told.payload)
	switch {
	case !sound || got != key:
		return wrong("another payload than the one sent")
	case string(told.handle) != c.group.handle:
		return wrong("another group than the one asked for")
	case told.recipients != strconv.Itoa(c.group.recipients()):
		return wrong("another recipient_count than the group's other members")
	case broadcastOf(told.copy) != told.broadcast:
		return wrong("a copy of another broadcast")
	}
	return nil
}

// broadcastOf returns the broadcast that a message is a copy of, if it is a copy.
func broadcastOf(id uuid) uuid { return uuid(parley.MessageID(id).Broadcast()) }
