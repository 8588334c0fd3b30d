// Package server implements parley serve: its settings, the order in which the store, the
// actors and the listeners are opened and closed, and the resources that a server uses:
// email, webhook targets, memory, processors, open files.
package server
