// Package layout is the one place that knows how rows lie on the disk: the keys of
// every family (keys.go has them on one screen), the encodings of their values,
// how values of the same key merge, and which journal is the home of a slot.
//
// What writes rows (persistence, its evaluator), what reads them (views) and what
// verifies them share it. It decides nothing: a change here changes the on-disk
// format, and nothing else does.
package layout
