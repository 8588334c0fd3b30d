// Package backup copies a running store into a backup directory and restores it
// from there. It knows the layout of a backup directory, in which every content is
// stored once under its hash; it takes, lists, checks, prunes and restores
// snapshots.
//
// It gets a checkpoint of the store through a small interface, Source, and knows
// nothing of journals and entries.
package backup
