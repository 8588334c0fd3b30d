package httpserver

import (
	"errors"
	"fmt"
	"log/slog"
)

// engineLog logs what fasthttp reports about connections.
type engineLog struct{ to *slog.Logger }

// Printf logs the format and the type of the error, never their text: fasthttp quotes
// what it could not read, which may be a token.
func (l engineLog) Printf(format string, args ...any) {
	cause := ""
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			cause = causeOf(err)
		}
	}
	l.to.Debug("connection", "said", format, "cause", cause)
}

// causeOf returns the type of the innermost error, never its text.
func causeOf(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}
