package membership

import (
	"slices"
	"testing"
)

// TestDiffering: a setting that another version does not have is not compared.
func TestDiffering(t *testing.T) {
	ours := []string{"--a=1", "--b=1", "--b2=1", "--new=1"}
	for _, c := range []struct{ theirs, want []string }{
		{nil, nil},
		{[]string{"--b2=1", "--b=1", "--a=1", "--old=1"}, nil},
		{[]string{"--a=1", "--b=", "--b2=2"}, []string{"--b", "--b2"}},
	} {
		if got := differing(ours, c.theirs); !slices.Equal(got, c.want) {
			t.Errorf("%q against %q: %q differ, want %q", ours, c.theirs, got, c.want)
		}
	}
}
