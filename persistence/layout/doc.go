// Package layout is the on-disk format of rows: the keys of every family (keys.go
// shows them on one screen), the encodings of their values, how values of the same
// key merge, and which journal is the home of a slot.
//
// The code that writes rows (persistence/apply), reads them (views) and verifies
// them shares it. It decides nothing: a change here changes the on-disk format, and
// nothing else does.
package layout
