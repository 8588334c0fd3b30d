// Package nodes tests clusters: nodes that are killed, halted, cut off, added, removed and
// upgraded.
package nodes

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
