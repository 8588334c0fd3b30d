package rest

import "github.com/valyala/fasthttp"

// AppendStreamHead appends the header of a stream's answer, without the blank line that
// ends it.
func (c *Call) AppendStreamHead(b []byte) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"+
		"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\nX-Request-ID: "...)
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
var streamHeaders = append(RateHeaders[:], fasthttp.HeaderAccessControlAllowOrigin, fasthttp.HeaderAccessControlExposeHeaders)
