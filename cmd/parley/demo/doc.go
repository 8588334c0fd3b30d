// Package demo is the demonstration that `parley demo` runs: agents of three
// organizations exchange messages through a server, which is killed and restarted. It
// checks every result before it prints it.
package demo
