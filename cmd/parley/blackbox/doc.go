// Package blackbox tests a running parley from outside: it starts the binary as an
// operator would and uses it over HTTP as a client would. It imports nothing of the
// project but package history, so that a name or rule passes only if the HTTP API exposes
// it.
//
// Every test runs on a server with one journal and on one with four. To run one area:
//
//	go test ./cmd/parley/blackbox -run 'TestStream'
//	go test ./cmd/parley/blackbox -run 'TestStatus/journals=4'
//
// PARLEY_BIN names a binary to test instead of building one.
package blackbox
