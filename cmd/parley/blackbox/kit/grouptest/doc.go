// Package grouptest has groups and MLS groups for tests, and a deployment in which agents use
// all commands of groups at once.
package grouptest

import "parley/cmd/parley/blackbox/kit"

type obj = kit.Obj
