// Package profile keeps an organization on disk for the command line: a directory
// with the credentials of one organization at one server and the private keys of its
// agents. Commands name it with flags, open it, and get a client or the session of
// an agent.
package profile
