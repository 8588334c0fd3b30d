// Package a2a holds the commands that send to agents over the A2A bridge and answer tasks.
package a2a
