// Package mls tests MLS groups and key packages.
package mls

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
