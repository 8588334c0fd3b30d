package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Parser reads answers out of bytes that somebody else has received. One serves
// any number of connections in turn. The zero Parser is ready.
type Parser struct {
	source bytes.Reader
	http   HTTP
}

// Answer reads the answer that received begins with, which took n bytes of it,
// and is valid until the next call. It is io.ErrUnexpectedEOF if the answer has
// not come whole yet; any other error is an answer that is none.
//
// An answer without length or chunks ends with its connection, of which a Parser
// knows nothing: it ends where received does.
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
