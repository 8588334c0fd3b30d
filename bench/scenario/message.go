package scenario

import (
	"fmt"

	"parley/bench/load"
	"parley/bench/wire"
)

// message holds the members of a message in an answer that are checked. Its texts point
// into the answer and are valid until the next one.
type message struct {
	id              uuid
	conversation    []byte
	toAgent         []byte
	recipientHandle []byte
	payload         []byte
}

// wrong is the error for an answer with a wrong value. The connection is still usable;
// the operation failed.
func wrong(what string) error { return load.Refused{Reason: "wrong answer: " + what} }

// readMessage reads a message object in one pass.
func readMessage(object []byte) (m message, err error) {
	m, _, err = cutMessage(object)
	return m, err
}

// cutMessage reads the message at the start of text and returns the rest.
func cutMessage(text []byte) (m message, rest []byte, err error) {
	walk := membersOf(text)
	identified := false
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(name) {
		case "id":
			m.id, identified = parseUUID(plainText(value))
		case "conversation_id":
			m.conversation = plainText(value)
		case "to_agent_id":
			m.toAgent = plainText(value)
		case "recipient_handle":
			m.recipientHandle = plainText(value)
		case "encrypted_payload":
			m.payload = plainText(value)
		}
	}
	if !walk.ended() {
		return m, nil, wrong("not a JSON object")
	}
	if !identified {
		return m, nil, wrong("no UUID as id")
	}
	return m, walk.rest, nil
}

// refusal returns the error for an answer with an unexpected status. known is false if
// the operation may have happened nevertheless.
func refusal(answer wire.Answer) (err error, known bool) {
	code := ""
	walk := membersOf(answer.Body)
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		if string(name) == "code" {
			code = string(plainText(value))
		}
	}
	reason := fmt.Sprintf("status %d", answer.Status)
	if code != "" {
		reason += " " + code
	}
	return load.Refused{Reason: reason}, answer.Status < 500 || code == "overloaded"
}

// page is a read inbox page.
type page struct {
	count   int
	hasMore bool
	cursor  []byte
}

// readPage walks a page of messages, which systems call items or messages, in one pass
// and passes each message to each.
func readPage(body []byte, each func(message) error) (p page, err error) {
	walk := membersOf(body)
	listed := false
	for {
		name, ok := walk.name()
		if !ok {
			break
		}
		if string(name) == "items" || string(name) == "messages" {
			listed = true
			if p.count, walk.rest, err = cutMessages(walk.rest, each); err != nil {
				return p, err
			}
			continue
		}
		value, _ := walk.value()
		switch string(name) {
		case "has_more":
			p.hasMore = string(value) == "true"
		case "next_cursor":
			p.cursor = plainText(value)
		}
	}
	if !walk.ended() || !listed {
		return p, wrong("not a page")
	}
	return p, nil
}

// cutMessages reads the array of messages at the start of text and returns the rest.
func cutMessages(text []byte, each func(message) error) (count int, rest []byte, err error) {
	if len(text) == 0 || text[0] != '[' {
		return 0, nil, wrong("not a page")
	}
	for rest = skipBlank(text[1:]); len(rest) > 0 && rest[0] != ']'; rest = skipBlank(rest) {
		if count > 0 {
			if rest[0] != ',' {
				return count, nil, wrong("not a page")
			}
			rest = skipBlank(rest[1:])
		}
		var m message
		if m, rest, err = cutMessage(rest); err != nil {
			return count, nil, err
		}
		if err = each(m); err != nil {
			return count, nil, err
		}
		count++
	}
	if len(rest) == 0 {
		return count, nil, wrong("not a page")
	}
	return count, rest[1:], nil
}

// pageSize is the number of messages in a page of the inbox scenarios.
const pageSize = 20

// order checks that a page has the newest messages first. It compares messages of the
// same client, which sends one message at a time.
type order struct {
	seen  [pageSize]Key
	count int
}

func (o *order) next(key Key) error {
	for _, newer := range o.seen[:o.count] {
		if newer.Run != key.Run || newer.Worker != key.Worker {
			continue
		}
		if newer.N < key.N || newer.N == key.N && newer.Part <= key.Part {
			return wrong("the page is not newest first")
		}
	}
	if o.count < len(o.seen) {
		o.seen[o.count] = key
		o.count++
	}
	return nil
}
