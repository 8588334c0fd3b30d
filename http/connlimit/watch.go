package connlimit

import "net"

// Watch calls gone, once, when the client closes a hijacked connection or its sending half,
// when the connection fails, or when it is evicted. It drops what the client sends. conn and
// tracked are what Hijack returned; Leave ends the watch. gone must not wait for anything.
func Watch(conn net.Conn, tracked *Conn, gone func()) {
	if tracked != nil && tracked.listener.watcher.add(tracked, gone) {
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
