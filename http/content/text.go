package content

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// Upper bounds on what a message takes in a page besides its stored content: its ids,
// instants and status, and for a copy of a broadcast the members in which copies differ.
const (
	MessageFrame = 320
	CopyFrame    = 720
)

// AppendText appends a JSON string. The text is valid UTF-8.
func AppendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // bound strings are valid UTF-8
	return b
}

// AppendOptional appends a JSON string, null for nil.
func AppendOptional(b []byte, text *string) []byte {
	if text == nil {
		return append(b, `null`...)
	}
	return AppendText(b, *text)
}

// AppendID appends an id as a JSON string.
func AppendID(b []byte, id parley.AnyID) []byte {
	b, _ = id.AppendText(append(b, '"'))
	return append(b, '"')
}

// AppendBool appends true or false.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, `true`...)
	}
	return append(b, `false`...)
}

// AppendInt appends a number.
func AppendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// AppendTime appends an instant in the format of api.Time, without parsing a layout: a
// page has sixty of them.
func AppendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendDigits(append(b, '"'), year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/1000, 6)
	return append(b, 'Z', '"')
}

// appendDigits appends n with leading zeros, as width digits.
func appendDigits(b []byte, n, width int) []byte {
	at := len(b)
	b = append(b, "000000"[:width]...)
	for i := at + width - 1; i >= at && n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// AppendInstant appends an instant in Unix milliseconds as AppendTime does, null for 0.
func AppendInstant(b []byte, ms int64) []byte {
	if ms == 0 {
		return append(b, `null`...)
	}
	return AppendTime(b, time.UnixMilli(ms))
}
