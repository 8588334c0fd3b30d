// Package report holds the result of a verification of stored data: which
// statements were checked, how often, and where they did not hold. The check of
// rows (persistence/verify) and the check of what they mean (actors/verify) fill
// the same result.
package report

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"parley/client/parley"
)

// faultsKept is how many faults of one check are described; all are counted.
const faultsKept = 20

// Verification is the result of checking stored data: what was checked, how often,
// and which faults were found. One goroutine fills it.
type Verification struct {
	// Progress, if set, is called from time to time with what is being read and
	// how many rows of it were read.
	Progress func(what string, rows uint64)

	checks []*Check
}

// Check is one statement that must be true of stored data.
type Check struct {
	// Name is short and stable, for scripts and tests; Says is the statement.
	Name string
	Says string
	// Checked is how often the statement was checked, Faults how often it was
	// false.
	Checked uint64
	Faults  uint64
	// First are the first faults, at most 20.
	First []Fault
}

// Fault is a place where stored data contradict a check.
type Fault struct {
	Check string `json:"check"`
	// Where names the place; Means says what is wrong there, and the consequence.
	Where string `json:"where"`
	Means string `json:"means"`
}

func (f Fault) String() string { return f.Check + ": " + f.Where + ": " + f.Means }

// Check returns the check of that name. The first call with a name creates it.
func (v *Verification) Check(name, says string) *Check {
	for _, c := range v.checks {
		if c.Name == name {
			return c
		}
	}
	c := &Check{Name: name, Says: says}
	v.checks = append(v.checks, c)
	return c
}

// Checks returns all checks, in the order in which they were created.
func (v *Verification) Checks() []*Check { return v.checks }

// Faults returns the number of faults of all checks.
func (v *Verification) Faults() (n uint64) {
	for _, c := range v.checks {
		n += c.Faults
	}
	return n
}

// First returns at most limit faults, in the order of the checks. It takes the
// first fault of every check before the second of any.
func (v *Verification) First(limit int) []Fault {
	var first []Fault
	for n := 0; n < faultsKept; n++ {
		for _, c := range v.checks {
			if n < len(c.First) && len(first) < limit {
				first = append(first, c.First[n])
			}
		}
	}
	slices.SortStableFunc(first, func(x, y Fault) int { return v.place(x) - v.place(y) })
	return first
}

func (v *Verification) place(f Fault) int {
	return slices.IndexFunc(v.checks, func(c *Check) bool { return c.Name == f.Check })
}

// Err returns nil if there are no faults, else an error that lists the first ones.
func (v *Verification) Err() error {
	n := v.Faults()
	if n == 0 {
		return nil
	}
	all := []error{fmt.Errorf("verification found %d faults", n)}
	for _, f := range v.First(faultsKept) {
		all = append(all, errors.New(f.String()))
	}
	return errors.Join(all...)
}

// Tell calls Progress, if it is set.
func (v *Verification) Tell(what string, rows uint64) {
	if v.Progress != nil {
		v.Progress(what, rows)
	}
}

// Fault records that the statement is false at a place.
func (c *Check) Fault(where, means string, args ...any) {
	c.Faults++
	if len(c.First) < faultsKept {
		c.First = append(c.First, Fault{Check: c.Name, Where: where, Means: fmt.Sprintf(means, args...)})
	}
}

// multisetSlotsRead is how many slots with differing sums are compared member by
// member.
const multisetSlotsRead = 16

// Multiset compares two multisets of any size, whose members arrive in any order:
// the members that some rows imply (Expect), and those that exist (Find). It keeps
// one sum of hashes per slot.
//
// If Reread returns true, sums differ: the caller has to read the same rows once
// more. Settle then reports the members that are missing and those that no row
// implies.
type Multiset struct {
	check *Check
	seed  maphash.Seed
	sums  [parley.Slots]uint64
	// exact counts the members of the slots in of, during the second reading.
	exact map[string]int64
	of    map[parley.Slot]bool
	key   []byte
}

// Multiset returns a multiset whose faults are recorded in c.
func (c *Check) Multiset() *Multiset { return &Multiset{check: c, seed: maphash.MakeSeed()} }

// Expect adds n occurrences of the member named by parts to what must exist. The
// slot bounds how many members a second reading has to keep.
func (m *Multiset) Expect(slot parley.Slot, n uint64, parts ...[]byte) {
	if m.exact == nil {
		m.check.Checked += n
	}
	m.enter(slot, int64(n), parts)
}

// Find adds n occurrences of the member named by parts to what exists.
func (m *Multiset) Find(slot parley.Slot, n uint64, parts ...[]byte) { m.enter(slot, -int64(n), parts) }

func (m *Multiset) enter(slot parley.Slot, n int64, parts [][]byte) {
	slot %= parley.Slots
	if m.exact != nil && !m.of[slot] {
		return
	}
	m.key = m.key[:0]
	for _, p := range parts {
		m.key = append(m.key, p...)
	}
	if m.exact == nil {
		m.sums[slot] += maphash.Bytes(m.seed, m.key) * uint64(n)
		return
	}
	if have := m.exact[string(m.key)] + n; have == 0 {
		delete(m.exact, string(m.key))
	} else {
		m.exact[string(m.key)] = have
	}
}

// Reread reports whether the multisets differ, and prepares the second reading.
func (m *Multiset) Reread() bool {
	m.of = map[parley.Slot]bool{}
	for slot, sum := range m.sums {
		switch {
		case sum == 0:
		case len(m.of) < multisetSlotsRead:
			m.of[parley.Slot(slot)] = true
		default:
			m.check.Fault(fmt.Sprintf("slot %d", slot), "the accounts differ here as well; the first %d slots are looked into one by one", multisetSlotsRead)
		}
	}
	if len(m.of) == 0 {
		return false
	}
	m.exact = map[string]int64{}
	return true
}

// Settle records a fault, described by tell, for each member that occurs in one
// multiset only: n is how often it is missing, negative if no row implies it.
func (m *Multiset) Settle(tell func(member []byte, n int64) (where, means string)) {
	members := make([]string, 0, len(m.exact))
	for member := range m.exact {
		members = append(members, member)
	}
	slices.Sort(members)
	for _, member := range members {
		where, means := tell([]byte(member), m.exact[member])
		m.check.Fault(where, "%s", means)
	}
}
