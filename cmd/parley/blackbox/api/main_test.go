// Package api tests messages, conversations, inboxes and what holds for every route: who may
// call it, its fields, its headers, and how it rejects bad requests.
package api

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

type obj = kit.Obj

func TestMain(m *testing.M) { kit.Main(m) }
