package host

import (
	"bytes"
	"encoding/json"
	"fmt"

	"parley/bench/load"
	"parley/bench/wire"
)

// Message holds the members of a message in an answer that are checked. Its texts point
// into the answer and are valid until the next one.
type Message struct {
	ID              UUID
	Conversation    []byte
	toAgent         []byte
	RecipientHandle []byte
	Payload         []byte
}

// Wrong is the error for an answer with a wrong value. The connection is still usable;
// the operation failed.
func Wrong(what string) error { return load.Refused{Reason: "wrong answer: " + what} }

// MessageJSON is a message as it is read in full.
type MessageJSON struct {
	ID              string `json:"id"`
	Conversation    string `json:"conversation_id"`
	ToAgent         string `json:"to_agent_id"`
	RecipientHandle string `json:"recipient_handle"`
	Payload         string `json:"encrypted_payload"`
}

func (j *MessageJSON) Message() (m Message, err error) {
	id, identified := ParseUUID([]byte(j.ID))
	if !identified {
		return m, Wrong("no UUID as id")
	}
	return Message{id, []byte(j.Conversation), []byte(j.ToAgent), []byte(j.RecipientHandle), []byte(j.Payload)}, nil
}

// ReadMessage reads a message in full.
func ReadMessage(object []byte) (Message, error) {
	var j MessageJSON
	if json.Unmarshal(object, &j) != nil {
		return Message{}, Wrong("not a JSON object")
	}
	return j.Message()
}

// Get requests a path and returns the body of the answer, which must have status 200.
func Get(conn *wire.HTTP, path, token string) ([]byte, error) {
	return Call(conn, 200, "GET", path, token, nil, nil)
}

// Call makes a request and returns the body of the answer, which must have a status.
func Call(conn *wire.HTTP, status int, method, path, token string, headers [][2]string, body []byte) ([]byte, error) {
	answer, err := conn.Call(method, path, token, headers, body)
	if err == nil && answer.Status != status {
		err, _ = Refusal(answer)
	}
	return answer.Body, err
}

// Refusal returns the error for an answer with an unexpected status. known is false if
// the operation may have happened nevertheless.
func Refusal(answer wire.Answer) (err error, known bool) {
	var parsed struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(answer.Body, &parsed) // what is no JSON has no code
	reason := fmt.Sprintf("status %d", answer.Status)
	if parsed.Code != "" {
		reason += " " + parsed.Code
	}
	return load.Refused{Reason: reason}, answer.Status < 500 || parsed.Code == "overloaded"
}

// page is a read inbox page.
type page struct {
	count   int
	HasMore bool
	Cursor  string
}

// ReadPage reads a page of messages, which systems call items or messages, in full and passes
// each message to each.
func ReadPage(body []byte, each func(Message) error) (p page, err error) {
	var j struct {
		Items    []MessageJSON `json:"items"`
		Messages []MessageJSON `json:"messages"`
		More     bool          `json:"has_more"`
		Cursor   string        `json:"next_cursor"`
	}
	if json.Unmarshal(body, &j) != nil || j.Items == nil && j.Messages == nil {
		return p, Wrong("not a page")
	}
	for _, one := range append(j.Items, j.Messages...) {
		m, err := one.Message()
		if err == nil {
			err = each(m)
		}
		if err != nil {
			return p, err
		}
		p.count++
	}
	p.HasMore, p.Cursor = j.More, j.Cursor
	return p, nil
}

// PageSize is the number of messages in a page of the inbox scenarios.
const PageSize = 20

// order checks that a page has the newest messages first. It compares messages of the
// same client, which sends one message at a time.
type order struct {
	seen  [PageSize]Key
	count int
}

func (o *order) next(key Key) error {
	for _, newer := range o.seen[:o.count] {
		if newer.Run != key.Run || newer.Worker != key.Worker {
			continue
		}
		if newer.N < key.N || newer.N == key.N && newer.Kind <= key.Kind {
			return Wrong("the page is not newest first")
		}
	}
	if o.count < len(o.seen) {
		o.seen[o.count] = key
		o.count++
	}
	return nil
}

// Answers are read in full at first, and then by direct search for the members that are
// checked: answers of some systems have six times as many members as those of others, and
// the generator, which shares the processor with them, should not charge them for it.

// Members of a message and of a page, as all systems write them: without spaces, the id
// of a message first.
var (
	findID           = []byte(`"id":"`)
	findFirstID      = []byte(`{"id":"`)
	findConversation = []byte(`"conversation_id":"`)
	findToAgent      = []byte(`"to_agent_id":"`)
	findRecipient    = []byte(`"recipient_handle":"`)
	findPayload      = []byte(`"encrypted_payload":"`)
	findCursor       = []byte(`"next_cursor":"`)
	findMore         = []byte(`"has_more":true`)
)

// answers reads the answers that one connection gets.
type answers struct{ message, page bool }

// readMessage reads a message, the first one in full.
func (a *answers) readMessage(body []byte) (Message, error) {
	if !a.message {
		m, err := ReadMessage(body)
		a.message = err == nil
		return m, err
	}
	return FindMessage(body)
}

// readPage passes each message of a page to each. It reads the first page in full, and every
// page without a message that begins with its id.
func (a *answers) readPage(body []byte, each func(Message) error) (page, error) {
	if !a.page || !bytes.Contains(body, findFirstID) {
		p, err := ReadPage(body, each)
		a.page = err == nil
		return p, err
	}
	return findPage(body, each)
}

// FindMessage finds the members of a message in its JSON.
func FindMessage(text []byte) (m Message, err error) {
	id, identified := ParseUUID(findText(text, findID))
	if !identified {
		return m, Wrong("no UUID as id")
	}
	return Message{
		ID: id, Conversation: findText(text, findConversation), toAgent: findText(text, findToAgent),
		RecipientHandle: findText(text, findRecipient), Payload: findText(text, findPayload),
	}, nil
}

// findPage finds the messages of a page and what follows them.
func findPage(body []byte, each func(Message) error) (p page, err error) {
	for rest := body[max(bytes.Index(body, findFirstID), 0):]; len(rest) > 0; p.count++ {
		end := bytes.Index(rest[1:], findFirstID) + 1
		if end == 0 {
			end = len(rest)
		}
		m, err := FindMessage(rest[:end])
		if err != nil {
			return page{}, err
		}
		if err := each(m); err != nil {
			return page{}, err
		}
		rest = rest[end:]
	}
	p.Cursor, p.HasMore = string(findText(body, findCursor)), bytes.Contains(body, findMore)
	return p, nil
}

// findText returns the text of the first member called name, nil if there is none. The text
// must be one without escapes, such as ids, handles and payloads.
func findText(text, name []byte) []byte {
	at := bytes.Index(text, name)
	if at < 0 {
		return nil
	}
	text = text[at+len(name):]
	return text[:max(bytes.IndexByte(text, '"'), 0)]
}
