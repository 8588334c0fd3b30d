// Package cli holds the commands that use a server as a client: register, agent, key,
// send, reply, inbox, watch, ack, trace, conversation, group. They use only the HTTP
// interface and a profile, and know nothing of the server's internals.
package cli
