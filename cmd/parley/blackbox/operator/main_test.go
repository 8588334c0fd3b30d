// Package operator tests the admin address, logs, and traces of requests and messages.
package operator

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
