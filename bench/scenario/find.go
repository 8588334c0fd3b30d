package scenario

import "bytes"

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
func (a *answers) readMessage(body []byte) (message, error) {
	if !a.message {
		m, err := readMessage(body)
		a.message = err == nil
		return m, err
	}
	return findMessage(body)
}

// readPage passes each message of a page to each. It reads the first page in full, and every
// page without a message that begins with its id.
func (a *answers) readPage(body []byte, each func(message) error) (page, error) {
	if !a.page || !bytes.Contains(body, findFirstID) {
		p, err := readPage(body, each)
		a.page = err == nil
		return p, err
	}
	return findPage(body, each)
}

// findMessage finds the members of a message in its JSON.
func findMessage(text []byte) (m message, err error) {
	id, identified := parseUUID(findText(text, findID))
	if !identified {
		return m, wrong("no UUID as id")
	}
	return message{
		id: id, conversation: findText(text, findConversation), toAgent: findText(text, findToAgent),
		recipientHandle: findText(text, findRecipient), payload: findText(text, findPayload),
	}, nil
}

// findPage finds the messages of a page and what follows them.
func findPage(body []byte, each func(message) error) (p page, err error) {
	for rest := body[max(bytes.Index(body, findFirstID), 0):]; len(rest) > 0; p.count++ {
		end := bytes.Index(rest[1:], findFirstID) + 1
		if end == 0 {
			end = len(rest)
		}
		m, err := findMessage(rest[:end])
		if err != nil {
			return page{}, err
		}
		if err := each(m); err != nil {
			return page{}, err
		}
		rest = rest[end:]
	}
	p.cursor, p.hasMore = findText(body, findCursor), bytes.Contains(body, findMore)
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
