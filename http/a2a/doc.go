// Package a2a lets clients that speak A2A 1.0 call agents of this server: JSON-RPC requests,
// tasks made of conversations, streams of their events, and signed cards. It stores nothing of
// its own: what a client sends is a message like any other.
package a2a
