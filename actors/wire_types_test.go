package actors

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"parley/cluster"
)

// TestWireTypes compares the field numbers of everything that crosses between nodes with a
// file. Lines may be added, and fields at the end of a line's type: a line that changes or
// goes away breaks clusters whose nodes have different versions. -rewrite writes the file.
func TestWireTypes(t *testing.T) {
	datadriven.RunTest(t, "testdata/wire", func(*testing.T, *datadriven.TestData) string {
		types := WireTypes()
		cluster.RegisterTypes(types)
		return types.Describe()
	})
}
