package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Time is a datetime of the API. It is written in UTC, in the form of RFC 3339 with
// microseconds and Z. It is read from any ISO 8601 date or datetime.
type Time struct{ time.Time }

// ErrNotTime is returned if a text is not an ISO 8601 date or datetime.
var ErrNotTime = errors.New("value should be an ISO 8601 datetime")

const layout = "2006-01-02T15:04:05.000000Z"

// At returns the wire form of t.
func At(t time.Time) Time { return Time{t.UTC()} }

// Maybe returns the wire form of an optional time: nil for the zero time.
func Maybe(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t.UTC()}
}

// AppendText appends the wire form.
func (t Time) AppendText(b []byte) ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		return b, ErrNotTime
	}
	return u.AppendFormat(b, layout), nil
}

// MarshalText returns the wire form.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// String returns the wire form.
func (t Time) String() string { return t.UTC().Format(layout) }

// MarshalJSON returns the wire form as a JSON string.
func (t Time) MarshalJSON() ([]byte, error) {
	b, err := t.AppendText([]byte{'"'})
	return append(b, '"'), err
}

// UnmarshalText reads any ISO 8601 date or datetime.
func (t *Time) UnmarshalText(b []byte) error {
	parsed, err := ParseTime(string(b))
	if err == nil {
		*t = parsed
	}
	return err
}

// UnmarshalJSON reads a JSON string; null leaves the time unchanged.
func (t *Time) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, null) {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return ErrNotTime
	}
	return t.UnmarshalText([]byte(text))
}

// ParseTime reads a calendar, week or ordinal date in the extended or basic format of
// ISO 8601, alone (then 00:00) or followed by a time. Without a zone it is UTC. A space
// before the digits of a zone counts as the + that a query string turned into it.
func ParseTime(text string) (Time, error) {
	if len(text) > 64 {
		return Time{}, ErrNotTime
	}
	date, clock, timed := cutDate(text)
	day, ok := parseDate(date)
	if !ok {
		return Time{}, ErrNotTime
	}
	if !timed {
		clock = "00"
	}
	since, ok := parseClock(clock)
	at := day.Add(since)
	if year := at.Year(); !ok || year < 0 || year > 9999 { // what could not be told
		return Time{}, ErrNotTime
	}
	return Time{at}, nil
}

// cutDate splits at the T, t or first space.
func cutDate(text string) (date, clock string, timed bool) {
	i := strings.IndexAny(text, "Tt ")
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

func parseDate(s string) (time.Time, bool) {
	if len(s) < 7 {
		return time.Time{}, false
	}
	year, ok := number(s[:4], 4)
	if !ok {
		return time.Time{}, false
	}
	rest := s[4:]
	switch plain := strings.ReplaceAll(rest, "-", ""); {
	case plain != "" && plain[0] == 'W':
		return weekDate(year, rest, plain)
	case len(plain) == 3 && (rest == plain || rest == "-"+plain):
		return ordinalDate(year, plain)
	case len(plain) == 4 && (rest == plain || rest == "-"+plain[:2]+"-"+plain[2:]):
		return calendarDate(year, plain)
	}
	return time.Time{}, false
}

func calendarDate(year int, plain string) (time.Time, bool) {
	month, ok1 := number(plain[:2], 2)
	day, ok2 := number(plain[2:], 2)
	d := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return d, ok1 && ok2 && month >= 1 && month <= 12 && day >= 1 && d.Day() == day
}

func ordinalDate(year int, plain string) (time.Time, bool) {
	n, ok := number(plain, 3)
	d := time.Date(year, 1, n, 0, 0, 0, 0, time.UTC)
	return d, ok && n >= 1 && d.Year() == year
}

func weekDate(year int, rest, plain string) (time.Time, bool) {
	if len(plain) != 3 && len(plain) != 4 {
		return time.Time{}, false
	}
	day := 1
	week, ok := number(plain[1:3], 2)
	extended := "-" + plain
	if len(plain) == 4 {
		extended = "-" + plain[:3] + "-" + plain[3:]
		var okDay bool
		day, okDay = number(plain[3:], 1)
		ok = ok && okDay
	}
	if !ok || day < 1 || day > 7 || (rest != plain && rest != extended) {
		return time.Time{}, false
	}
	// The fourth of January is always in week one.
	first := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)
	first = first.AddDate(0, 0, -((int(first.Weekday()) + 6) % 7))
	d := first.AddDate(0, 0, (week-1)*7+day-1)
	y, w := d.ISOWeek()
	return d, y == year && w == week
}

// parseClock returns the duration to add to midnight UTC of the date.
func parseClock(s string) (time.Duration, bool) {
	body, offset, ok := cutZone(s)
	if !ok {
		return 0, false
	}
	digits, fraction, hasFraction := strings.Cut(strings.Replace(body, ",", ".", 1), ".")
	plain := strings.ReplaceAll(digits, ":", "")
	if n := len(plain); n != 2 && n != 4 && n != 6 || (digits != plain && digits != colons(plain)) {
		return 0, false
	}
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	most := []int{24, 59, 60}
	var total time.Duration
	for i := range len(plain) / 2 {
		n, ok := number(plain[2*i:2*i+2], 2)
		if !ok || n > most[i] {
			return 0, false
		}
		total += time.Duration(n) * units[i]
	}
	if hasFraction {
		part, ok := portion(fraction, units[len(plain)/2-1])
		if !ok {
			return 0, false
		}
		total += part
	}
	if plain[:2] == "24" && total != 24*time.Hour {
		return 0, false
	}
	return total - offset, true
}

func colons(plain string) string {
	var b strings.Builder
	for i := 0; i < len(plain); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(plain[i : i+2])
	}
	return b.String()
}

// portion returns the decimal fraction 0.digits of a unit, in nanoseconds.
func portion(digits string, unit time.Duration) (time.Duration, bool) {
	if digits == "" {
		return 0, false
	}
	var total time.Duration
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		if i < 9 {
			unit /= 10
			total += time.Duration(digits[i]-'0') * unit
		}
	}
	return total, true
}

// cutZone removes Z, ±hh, ±hhmm or ±hh:mm from the end; without a zone it is UTC.
func cutZone(s string) (body string, offset time.Duration, ok bool) {
	if n := len(s); n > 0 && (s[n-1] == 'Z' || s[n-1] == 'z') {
		return s[:n-1], 0, true
	}
	i := strings.LastIndexAny(s, "+- ")
	if i < 0 {
		return s, 0, true
	}
	zone := s[i+1:]
	plain := strings.Replace(zone, ":", "", 1)
	if len(plain) == 2 {
		plain += "00"
	}
	if len(plain) != 4 || (strings.Contains(zone, ":") && zone != colons(plain)) {
		return "", 0, false
	}
	hours, ok1 := number(plain[:2], 2)
	minutes, ok2 := number(plain[2:], 2)
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return "", 0, false
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[i] == '-' {
		offset = -offset
	}
	return s[:i], offset, true
}

// number reads exactly n decimal digits.
func number(s string, n int) (int, bool) {
	if len(s) != n {
		return 0, false
	}
	for i := range n {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	v, err := strconv.Atoi(s)
	return v, err == nil
}
