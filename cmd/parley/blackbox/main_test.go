package blackbox

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// obj is a JSON object.
type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
