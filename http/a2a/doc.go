// Package a2a is the bridge to agents that speak the A2A protocol, version 1.0. card.go
// translates the stored card of an agent, sign.go signs the translation, and cards.go keeps
// signed cards. It knows nothing about routes and headers of requests: package http does.
package a2a
