package wire

import "bytes"

// delivery is one message from NATS. Its slices are valid until the next message.
type delivery struct {
	subject, reply, payload []byte
	// status is the status that the head of a message has instead of a payload, such as
	// 404 or 503; 0 for a message as it was published.
	status int
	// kept holds the bytes that the slices point into.
	kept []byte
}

// receive waits for the next message and handles the other lines of the protocol.
func (c *NATS) receive() (*delivery, error) {
	for {
		line, err := c.reader.line(HeadBytesMax)
		if err != nil {
			return nil, cutOff(err)
		}
		switch {
		case bytes.HasPrefix(line, []byte("MSG ")):
			err = c.deliver(line[len("MSG "):], false)
		case bytes.HasPrefix(line, []byte("HMSG ")):
			err = c.deliver(line[len("HMSG "):], true)
		default:
			if err := c.control(line); err != nil {
				return nil, err
			}
			continue
		}
		return &c.message, err
	}
}

// control handles lines that are not messages.
func (c *NATS) control(line []byte) error {
	switch {
	case string(line) == "PING":
		_, err := c.conn.Write([]byte("PONG\r\n"))
		return err
	case string(line) == "PONG", string(line) == "+OK", bytes.HasPrefix(line, []byte("INFO ")):
		return nil
	case bytes.HasPrefix(line, []byte("-ERR")):
		return malformed("the server complains", line)
	}
	return malformed("not a word of NATS", line)
}

// deliver reads the rest of a message whose line is
//
//	MSG  <subject> <subscription> [reply] <bytes>
//	HMSG <subject> <subscription> [reply] <bytes of the head> <bytes of both>
//
// without the first word.
func (c *NATS) deliver(line []byte, headed bool) error {
	var words [5][]byte
	n := 0
	for word := range bytes.FieldsSeq(line) {
		if n == len(words) {
			return malformed("a message has its subject, subscription and size", line)
		}
		words[n], n = word, n+1
	}
	sizes := 1
	if headed {
		sizes = 2
	}
	if n != 2+sizes && n != 3+sizes || string(words[1]) != subscription {
		return malformed("a message has its subject, subscription and size", line)
	}
	size, ok := decimal(words[n-1])
	top := 0
	if headed && ok {
		top, ok = decimal(words[n-2])
	}
	if !ok || top > size {
		return malformed("a message has its subject, subscription and size", line)
	}
	m := &c.message
	subject, reply := len(words[0]), 0
	m.kept = append(m.kept[:0], words[0]...)
	if n == 3+sizes {
		reply = len(words[2])
		m.kept = append(m.kept, words[2]...)
	}
	start := len(m.kept)
	kept, err := c.reader.take(m.kept, size)
	m.kept = kept
	if err != nil {
		return err
	}
	m.subject, m.reply = kept[:subject], kept[subject:subject+reply]
	m.payload, m.status = kept[start+top:], statusOf(kept[start:start+top])
	return c.reader.end()
}

// statusOf reads the status in a message's head, "NATS/1.0 503".
func statusOf(top []byte) int {
	top, _, _ = bytes.Cut(top, []byte{'\r'})
	words, ok := bytes.CutPrefix(top, []byte("NATS/1.0 "))
	if !ok {
		return 0
	}
	code, _, _ := bytes.Cut(words, []byte{' '})
	status, _ := decimal(code)
	return status
}
