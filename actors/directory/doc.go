// Package directory finds published cards of agents and public groups. It holds a
// projection in memory: [Index] for cards, [Groups] for groups. [Index.Put] and
// [Index.Remove] change it, [Index.Search] ranks by words (BM25F), by vectors and by
// both, with filters, sort orders and positions for cursors. A change is found by the
// next search, searches never wait for changes, and the work of a search is bounded.
// The package does no I/O except in [Index.WriteCheckpoint] and [ReadCheckpoint], and it
// computes no vectors: see parley/actors/directory/embed. docs/directory.md explains the
// ranking.
package directory
