// Package verify reports what an examination of stored data found: which
// statements were checked, how often, and where they did not hold. Those who
// examine bytes and those who examine their meaning share one Report.
package verify

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"parley"
)

// faultsKept is how many faults of one check are kept in words; all are counted.
const faultsKept = 20

// Report is the record of an examination of stored data: what was checked, how
// often, and what was found wrong. The floors that examine share it, so that one
// report tells of bytes and of meaning. It is filled by one goroutine.
type Report struct {
	// Progress, if set, is called now and then with what is being read and how
	// many rows of it have been.
	Progress func(what string, rows uint64)

	checks []*Check
}

// Check is one statement that stored data must bear out.
type Check struct {
	// Name is short and stable, for scripts and tests; Says is the statement.
	Name string
	Says string
	// Checked counts how often the statement was put to the data, Faults how
	// often it was wrong.
	Checked uint64
	Faults  uint64
	// First are the first faults, in words.
	First []Fault
}

// Fault is a place where stored data contradict a check.
type Fault struct {
	Check string `json:"check"`
	// Where names the place, Means says what is wrong there and what follows.
	Where string `json:"where"`
	Means string `json:"means"`
}

func (f Fault) String() string { return f.Check + ": " + f.Where + ": " + f.Means }

// Check gives the check of that name, which is made at its first mention.
func (a *Report) Check(name, says string) *Check {
	for _, c := range a.checks {
		if c.Name == name {
			return c
		}
	}
	c := &Check{Name: name, Says: says}
	a.checks = append(a.checks, c)
	return c
}

// Checks are all checks, in the order in which they were made.
func (a *Report) Checks() []*Check { return a.checks }

// Faults is how many faults were found.
func (a *Report) Faults() (n uint64) {
	for _, c := range a.checks {
		n += c.Faults
	}
	return n
}

// First are the first faults of each check, at most limit of them together and
// as many of each check as there is room for.
func (a *Report) First(limit int) []Fault {
	var first []Fault
	for n := 0; n < faultsKept; n++ {
		for _, c := range a.checks {
			if n < len(c.First) && len(first) < limit {
				first = append(first, c.First[n])
			}
		}
	}
	slices.SortStableFunc(first, func(x, y Fault) int { return a.place(x) - a.place(y) })
	return first
}

func (a *Report) place(f Fault) int {
	return slices.IndexFunc(a.checks, func(c *Check) bool { return c.Name == f.Check })
}

// Err is nil for a report without faults, and else names the first of them. It
// is what a test wants to know.
func (a *Report) Err() error {
	n := a.Faults()
	if n == 0 {
		return nil
	}
	all := []error{fmt.Errorf("verification found %d faults", n)}
	for _, f := range a.First(faultsKept) {
		all = append(all, errors.New(f.String()))
	}
	return errors.Join(all...)
}

// Tell calls Progress, if anybody wants to know.
func (a *Report) Tell(what string, rows uint64) {
	if a.Progress != nil {
		a.Progress(what, rows)
	}
}

// Fault notes that the statement is wrong at a place.
func (c *Check) Fault(where, means string, args ...any) {
	c.Faults++
	if len(c.First) < faultsKept {
		c.First = append(c.First, Fault{Check: c.Name, Where: where, Means: fmt.Sprintf(means, args...)})
	}
}

// multisetSlotsRead is how many slots of a ledger that do not balance are looked
// into one by one.
const multisetSlotsRead = 16

// Multiset holds two accounts of one set against each other, however large the
// set and in whatever order its members come: what some rows say there must be
// (Expect), and what other rows are (Find). It remembers one sum of hashes per slot.
//
// Where sums differ, the same rows have to be read once more after Reread, which
// reports whether that is needed; then Settle names the members that are missing
// and those that nothing accounts for.
type Multiset struct {
	check *Check
	seed  maphash.Seed
	sums  [parley.Slots]uint64
	// exact has the members of the slots of interest, in the second reading.
	exact map[string]int64
	of    map[parley.Slot]bool
	key   []byte
}

// Multiset makes a ledger whose faults are those of c.
func (c *Check) Multiset() *Multiset { return &Multiset{check: c, seed: maphash.MakeSeed()} }

// Expect says that the member named by parts must be found, n times. Members live
// in slots so that a fault is found without reading everything again.
func (l *Multiset) Expect(slot parley.Slot, n uint64, parts ...[]byte) {
	if l.exact == nil {
		l.check.Checked += n
	}
	l.enter(slot, int64(n), parts)
}

// Find says that the member is there, n times.
func (l *Multiset) Find(slot parley.Slot, n uint64, parts ...[]byte) { l.enter(slot, -int64(n), parts) }

func (l *Multiset) enter(slot parley.Slot, n int64, parts [][]byte) {
	slot %= parley.Slots
	if l.exact != nil && !l.of[slot] {
		return
	}
	l.key = l.key[:0]
	for _, p := range parts {
		l.key = append(l.key, p...)
	}
	if l.exact == nil {
		l.sums[slot] += maphash.Bytes(l.seed, l.key) * uint64(n)
		return
	}
	if have := l.exact[string(l.key)] + n; have == 0 {
		delete(l.exact, string(l.key))
	} else {
		l.exact[string(l.key)] = have
	}
}

// Reread reports whether the accounts differ, and prepares for reading again.
func (l *Multiset) Reread() bool {
	l.of = map[parley.Slot]bool{}
	for slot, sum := range l.sums {
		switch {
		case sum == 0:
		case len(l.of) < multisetSlotsRead:
			l.of[parley.Slot(slot)] = true
		default:
			l.check.Fault(fmt.Sprintf("slot %d", slot), "the accounts differ here as well; the first %d slots are looked into one by one", multisetSlotsRead)
		}
	}
	if len(l.of) == 0 {
		return false
	}
	l.exact = map[string]int64{}
	return true
}

// Settle notes a fault for each member that is on one account only, in the words
// of tell: n is how often it is missing, negative for what nothing accounts for.
func (l *Multiset) Settle(tell func(member []byte, n int64) (where, means string)) {
	members := make([]string, 0, len(l.exact))
	for member := range l.exact {
		members = append(members, member)
	}
	slices.Sort(members)
	for _, member := range members {
		where, means := tell([]byte(member), l.exact[member])
		l.check.Fault(where, "%s", means)
	}
}
