package rest

import "github.com/valyala/fasthttp"

// AppendStreamHead appends the header of a stream's answer, without the blank line that
// ends it.
func (c *Call) AppendStreamHead(b []byte) []byte {
	return c.appendHead(append(b, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"...))
}

// AppendChunkedHead appends the whole header of an answer that a handler writes in chunks
// on the connection that it took over. trailers are the names of the fields that follow
// the last chunk.
func (c *Call) AppendChunkedHead(b []byte, media, trailers string) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\nContent-Type: "+media+"\r\nTransfer-Encoding: chunked\r\nTrailer: "+trailers+"\r\n"...)
	return append(c.appendHead(b), "\r\n"...)
}

func (c *Call) appendHead(b []byte) []byte {
	b = append(b, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\nX-Request-ID: "...)
	b = append(append(b, c.id...), "\r\n"...)
	for _, name := range streamHeaders {
		if value := c.ctx.Response.Header.Peek(name); len(value) > 0 {
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	return b
}

// streamHeaders are the headers that the server has set before the stream takes its
// connection over.
var streamHeaders = append(RateHeaders[:], fasthttp.HeaderAccessControlAllowOrigin, fasthttp.HeaderAccessControlExposeHeaders, fasthttp.HeaderVary)
