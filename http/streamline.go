package http

import (
	"net"
	"sync/atomic"
)

// lines is a listener whose connections streams can take from the engine.
//
// The engine can leave a connection to a handler too, but then it never uses
// the connection's buffers again: 16 KiB of garbage for every stream that
// opens, many times what the stream itself holds.
type lines struct{ net.Listener }

func (l lines) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &line{Conn: conn}, nil
}

// line is a connection as the engine sees it.
type line struct {
	net.Conn
	taken atomic.Bool
}

// Close closes the connection unless a stream has it.
func (l *line) Close() error {
	if l.taken.Load() {
		return nil
	}
	return l.Conn.Close()
}

// takeOver gives the connection below what the engine hands to a hijack
// handler. From then on it is the caller's to close.
func takeOver(conn net.Conn) net.Conn {
	if hijacked, ok := conn.(interface{ UnsafeConn() net.Conn }); ok {
		conn = hijacked.UnsafeConn()
	}
	if l, ok := conn.(*line); ok {
		l.taken.Store(true)
		conn = l.Conn
	}
	return conn
}
