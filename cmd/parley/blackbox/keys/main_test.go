// Package keys tests keys of agents, what binds, replaces and retires them, and signatures.
package keys

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
