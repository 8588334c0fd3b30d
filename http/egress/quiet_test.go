package egress_test

import (
	"io"
	"log"
)

// quiet discards the log of servers whose clients misbehave on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
