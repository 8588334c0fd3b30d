package program

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Span is a duration on the command line: as Go writes it, or a number of days such as 7d.
type Span time.Duration

// UnmarshalText reads a Span.
func (s *Span) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 31)
		if err != nil || n > math.MaxInt64/uint64(24*time.Hour) {
			return fmt.Errorf("%q is no number of days", text)
		}
		*s = Span(n) * Span(24*time.Hour)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration such as 90m, 12h or 7d", text)
	}
	*s = Span(d)
	return nil
}
