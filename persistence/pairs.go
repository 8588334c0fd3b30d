package persistence

import "github.com/cockroachdb/pebble/v2"

// Pairs tells of everything as it lies: every key with its value, in order. What
// one release has written so, the next must read. Byte strings are only valid
// during a call of fn, which ends the reading by an error.
func (a *Archive) Pairs(fn func(key, value []byte) error) error {
	iter, err := a.rows.NewIter(&pebble.IterOptions{})
	if err != nil {
		return err
	}
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		err = fn(iter.Key(), iter.Value())
	}
	if closeErr := iter.Close(); err == nil {
		err = closeErr
	}
	return err
}
