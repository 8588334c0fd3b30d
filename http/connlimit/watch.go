package connlimit

import "net"

// Watch calls gone, once, when the client closes a hijacked connection or its sending half,
// when the connection fails, or when it is evicted. It drops what the client sends. conn and
// line are what Hijack returned; Leave ends the watch. gone must not wait for anything.
func Watch(conn net.Conn, line *Conn, gone func()) {
	if line != nil && line.listener.watcher.add(line, gone) {
		return
	}
	go func() {
		var sink [16]byte
		for {
			if _, err := conn.Read(sink[:]); err != nil {
				gone()
				return
			}
		}
	}()
}
