// Package limits tests what a server bears: rates, quotas of tenants, connections, memory and
// overload.
package limits

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
