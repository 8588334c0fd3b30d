// Package recorded has clients that load a server, and record its answers in a history, while
// the server is killed or its nodes are struck. Package history checks what they recorded.
package recorded
