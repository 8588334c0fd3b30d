// Package blackbox judges a running parley from outside: it starts the binary
// as an operator would and talks to it over HTTP as a client would. It imports
// nothing of the project, so that a name or rule can only pass if the wire
// carries it.
//
// Every test runs on a server with one journal and on one with four. One area:
//
//	go test ./cmd/parley/blackbox -run 'TestStream'
//	go test ./cmd/parley/blackbox -run 'TestStatus/journals=4'
//
// PARLEY_BIN names a binary to judge instead of building one.
package blackbox
