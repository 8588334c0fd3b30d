package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Parser parses answers from bytes that its caller has received. One Parser serves any
// number of connections in turn. The zero Parser is ready to use.
type Parser struct {
	source bytes.Reader
	http   HTTP
}

// Answer parses the answer at the start of received, and returns it with its length n in
// bytes. The answer is valid until the next call. The error is io.ErrUnexpectedEOF if the
// answer is not complete yet; any other error means that it is not a valid answer.
//
// An answer without length or chunks ends with its connection, which a Parser does not
// know: it ends where received ends.
func (p *Parser) Answer(received []byte) (answer Answer, n int, err error) {
	p.source.Reset(received)
	if in := &p.http.reader.in; *in == nil {
		*in = bufio.NewReaderSize(&p.source, 16<<10)
	} else {
		(*in).Reset(&p.source)
	}
	if answer, err = p.http.receive(nil); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Answer{}, 0, err
	}
	return answer, len(received) - p.source.Len() - p.http.reader.in.Buffered(), nil
}
