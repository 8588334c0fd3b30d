package egress_test

import (
	"io"
	"log"
)

// quiet is a log for servers whose clients misbehave on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
