// Package durability kills servers, damages files, fills disks and restores backups: what was
// acknowledged is there afterwards.
package durability

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
