// Package server holds parley serve: its settings, the order in which store, actors and
// listeners are opened and closed, and what a server needs from its surroundings: email,
// webhook targets, memory, processors, open files.
package server
