// Package httpserver serves a table of routes over HTTP/1.1.
//
// Each request is checked in one order: HTTP itself, the access token, the rate, the
// trust tier, the schema, then the handler. The server limits what a request may hold
// before its caller is known, and rejects requests that a proxy in front could interpret
// differently.
package httpserver
