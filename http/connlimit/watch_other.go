//go:build !linux

package connlimit

// watcher watches nothing on this system: each connection has a goroutine instead.
type watcher struct{}

func (*watcher) add(*Conn, func()) bool { return false }

func (*watcher) remove(*Conn) (gone func()) { return nil }
