// Package cli holds the commands that use a server as a client: register, agent, key,
// send, reply, inbox, watch, ack, trace, conversation, webhook, group. They know the
// HTTP interface and a profile, and nothing of the server.
package cli
