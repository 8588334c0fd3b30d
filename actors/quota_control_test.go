package actors

import (
	"errors"
	"sync"
	"testing"
	"time"

	"parley/actors/org"
	"parley/client/parley"
	"parley/journal"
)

// wrongUsage is a journal that returns a wrong count of used quota.
type wrongUsage struct {
	journal.Journal
	used func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error)
}

func (j *wrongUsage) View() journal.View { return journal.ViewOf(&wrongUsageView{j.Journal.View(), j}) }

type wrongUsageView struct {
	journal.View
	of *wrongUsage
}

func (v *wrongUsageView) Used(org parley.OrgID, day uint32) (journal.Usage, error) {
	return v.of.used(v.View, org, day)
}

// TestDailyQuotaIsExactControl plants one defect of counting at a time.
func TestDailyQuotaIsExactControl(t *testing.T) {
	truth := func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error) { return v.Used(org, day) }
	for defect, c := range map[string]struct {
		used  func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error)
		shift time.Duration // by which the day changes early
	}{
		"": {used: truth},
		"never counts": {used: func(journal.View, parley.OrgID, uint32) (journal.Usage, error) {
			return journal.Usage{Messages: -1000}, nil
		}},
		"forgets at a restart": {used: func(journal.View, parley.OrgID, uint32) (journal.Usage, error) {
			return journal.Usage{}, nil
		}},
		"counts twice": {used: func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error) {
			n, err := v.Used(org, day)
			n.Sum(n)
			return n, err
		}},
		"loses one": {used: func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error) {
			n, err := v.Used(org, day)
			n.Messages = max(0, n.Messages-1)
			return n, err
		}},
		"counts yesterday too": {used: func(v journal.View, org parley.OrgID, day uint32) (journal.Usage, error) {
			n, err := v.Used(org, day)
			before, _ := v.Used(org, day-1)
			n.Sum(before)
			return n, err
		}},
		"rolls an hour early":      {used: truth, shift: time.Hour},
		"rolls an hour late":       {used: truth, shift: -time.Hour},
		"rolls a nanosecond early": {used: truth, shift: 1},
	} {
		t.Run(defect, func(t *testing.T) {
			clock := newManualClock(noon)
			r := newTestNode(t, withClock(func() time.Time { return clock.now().Add(c.shift) }), withWrap(func(j journal.Journal) journal.Journal { return journal.Of(&wrongUsage{j, c.used}) }))
			r.journalClock = time.Now
			if faults := dayFaults(newQuotaFixture(t, r), clock); (len(faults) == 0) != (defect == "") {
				t.Errorf("%q", faults)
			}
		})
	}
}

// TestAgentsAndGroupsAreExactControl uses a counter with a defect.
func TestAgentsAndGroupsAreExactControl(t *testing.T) {
	const may = 5
	var mu sync.Mutex
	for defect, one := range map[string]func(made *int) error{
		"":             func(made *int) error { return upTo(made, may) },
		"never counts": func(*int) error { return nil },
		"counts twice": func(made *int) error { return errors.Join(upTo(made, may), upTo(made, may)) },
		"one too many": func(made *int) error { return upTo(made, may+1) },
		"one too few":  func(made *int) error { return upTo(made, may-1) },
		"refuses with another error": func(made *int) error {
			if upTo(made, may) != nil {
				return parley.ErrOverloaded
			}
			return nil
		},
	} {
		made := 0
		faults := exactFaults("things", may, func(string) error {
			mu.Lock()
			defer mu.Unlock()
			return one(&made)
		})
		if (len(faults) == 0) != (defect == "") {
			t.Errorf("%s: %q", defect, faults)
		}
	}
}

func upTo(made *int, may int) error {
	if *made >= may {
		return org.ErrQuotaExceeded
	}
	*made++
	return nil
}
