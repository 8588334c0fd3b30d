// Package sealed is a layer in front of a journal. It seals the contents that actors
// append, opens those that they read, and hashes the names in row keys. Actors name the
// owners of a content; only this layer knows keys.
//
// It seals in the goroutine that appends: everything below it (queues, outboxes, logs,
// replicas) has sealed bytes only.
package sealed
