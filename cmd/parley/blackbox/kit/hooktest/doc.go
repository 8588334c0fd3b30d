// Package hooktest has webhooks for tests, and a sink that receives their deliveries: an HTTPS
// server on which each test creates targets that answer as it likes.
package hooktest

import "parley/cmd/parley/blackbox/kit"

type obj = kit.Obj
