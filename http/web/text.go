package web

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/client/api"
)

// visible returns a text of a card without the characters that show nothing, such as
// controls and those that reverse the direction of what follows. It keeps the ends of
// lines, and the joiners that emoji and some scripts are written with.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\u200c', r == '\u200d':
			return r
		case r == '\t', unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case r == utf8.RuneError, unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			return -1
		}
		return r
	}, text)
}

// line returns a text as one line.
func line(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }

// excerpt returns the beginning of a text as one line of at most so many characters. It
// shares no memory with the text.
func excerpt(text string, most int) string {
	// A text has more bytes than what is shown of it.
	text = line(text[:min(len(text), 16*most)])
	if utf8.RuneCountInString(text) <= most {
		return strings.Clone(text)
	}
	runes := []rune(text)[:most-1]
	for end := len(runes) - 1; end > most*3/4; end-- {
		if runes[end] == ' ' {
			runes = runes[:end]
			break
		}
	}
	return strings.TrimRight(string(runes), " ,;:.") + "…"
}

// web returns an address of the web unchanged, and "" for any other: a link to it could
// run a script.
func web(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || visible(address) != address {
		return ""
	}
	return address
}

// host returns the host of a web address, so that a reader sees where a link leads.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func date(t api.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func day(t api.Time) string { return t.UTC().Format("2 January 2006") }

// sentence returns a text with an upper-case letter at its beginning.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// pricings are the pricing models that a card can have.
var pricings = []string{api.PricingFree, api.PricingPerRequest, api.PricingSubscription, api.PricingNegotiated}

// pricing says a pricing model in words.
func pricing(model string) string { return strings.ReplaceAll(line(model), "_", " ") }

// enrollment says in words how a group takes members.
func enrollment(policy string) string {
	switch policy {
	case "open":
		return "Open: any agent may join."
	case "closed":
		return "By invitation of an admin."
	case "majority":
		return "Members vote; a majority decides."
	case "unanimity":
		return "Members vote; all must agree."
	}
	return line(policy)
}

// bareHandle returns the handle of a group without the #, as paths have it.
func bareHandle(handle string) string { return strings.TrimPrefix(handle, "#") }
