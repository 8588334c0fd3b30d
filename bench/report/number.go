package report

import (
	"math"
	"strconv"
	"strings"
)

// none is the text for a missing number.
const none = "–"

// number formats a value with three significant digits, or more for large whole numbers:
// 0.0123, 1.23, 12.3, 123, 12,345.
func number(v float64) string {
	switch size := math.Abs(v); {
	case !finite(v):
		return none
	case v == 0:
		return "0"
	case size >= 99.95:
		return whole(v)
	}
	// Round first: 9.999 is 10.0 and not 10.00.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	figures := 2 - int(math.Floor(math.Log10(math.Abs(rounded))+1e-9))
	return strconv.FormatFloat(rounded, 'f', min(max(figures, 0), 9), 64)
}

// whole formats a value without a fraction, with thousands separators.
func whole(v float64) string {
	if !finite(v) {
		return none
	}
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Abs(math.Round(v)), 'f', 0, 64)
	var b strings.Builder
	if v < 0 && digits != "0" {
		b.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// plain formats a value as briefly as possible without loss, with thousands separators if
// it is whole: a rate or a label of an axis.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return whole(v)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// bytesSize formats a number of bytes in a suitable binary unit.
func bytesSize(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, at := float64(n), 0
	for v >= 1024 && at < len(units)-1 {
		v, at = v/1024, at+1
	}
	return number(v) + " " + units[at]
}

// finite reports whether v can be shown and drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
