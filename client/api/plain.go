package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Check keeps characters out of the name and the address that a reader cannot see.
// docs: limits.md
func (in *Register) Check() []FieldError {
	return append(checkPlain("email", &in.Email), checkPlain("org_name", in.OrgName)...)
}

// Check does so for a change of them. docs: limits.md
func (in *OrgPatch) Check() []FieldError {
	return append(checkPlain("name", in.Name), checkPlain("contact_email", &in.ContactEmail.Value)...)
}

// checkPlain finds characters that a reader does not see: with them a name can show
// as another one. nil is no text.
func checkPlain(field string, text *string) []FieldError {
	if text == nil || Visible(*text) == *text {
		return nil
	}
	return []FieldError{{
		Loc: []any{"body", field}, Msg: "Value error, control, bidirectional formatting and other invisible characters are not allowed", Type: valueError,
	}}
}

// Visible returns a text in which every character that a reader does not see is written
// as an escape such as \u001b, so that the text cannot control a terminal. In JSON without
// white space it changes nothing that a parser reads.
func Visible(text string) string {
	var b strings.Builder
	runes := []rune(text) // bytes that are not UTF-8 become U+FFFD, which shows
	for i, r := range runes {
		if shows(runes[:i], r, runes[i+1:]) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// shows reports whether a reader sees a character between two texts. Joiners, separators
// and variation selectors show nothing themselves; they count as shown where a script or
// an emoji is written with them.
func shows(before []rune, r rune, after []rune) bool {
	switch {
	case !invisible(r):
		return true
	case r == nonJoiner || r == joiner:
		return joins(before, after, r)
	case r == zeroSpace || r == vowelSeparator:
		return parts(before, after, r)
	default:
		return unicode.Is(unicode.Variation_Selector, r) && varies(before, after)
	}
}

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	keycap    = '\u20e3'
	// zeroSpace is the space without width, vowelSeparator that of Mongolian.
	zeroSpace      = '\u200b'
	vowelSeparator = '\u180e'
)

// invisible reports whether a character shows nothing: controls, format characters
// (those of directions, joiners and tags among them) but for the few that show a
// sign, separators of lines, and all else that Unicode says is ignored in display.
func invisible(r rune) bool {
	if unicode.Is(unicode.Cf, r) {
		return !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// joinScripts are the scripts of today that are written with joiners: those whose
// letters connect, and those of India and its neighbours.
var joinScripts = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Adlam, unicode.Hanifi_Rohingya, unicode.Phags_Pa,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
	unicode.Malayalam, unicode.Sinhala, unicode.Myanmar, unicode.Khmer, unicode.Tibetan, unicode.Balinese, unicode.Javanese, unicode.Sundanese,
	unicode.Meetei_Mayek, unicode.Newa, unicode.Chakma, unicode.Limbu, unicode.Lepcha, unicode.Tai_Tham,
}

// joins reports whether a joiner between two texts has a use there: between two
// letters of a script that is written with joiners, after a mark of one, such as a
// virama; a non-joiner also between a foreign word or a number and such a letter, as
// Persian joins its endings to them; a joiner also between two emoji.
func joins(before, after []rune, r rune) bool {
	base := len(before) - 1
	for base >= 0 && (unicode.Is(unicode.Mn, before[base]) && unicode.Is(unicode.Inherited, before[base]) || skinTone(before[base])) {
		base-- // vowel signs of several scripts, the style and the skin of an emoji
	}
	if base < 0 {
		return false
	}
	switch last := before[base]; {
	case unicode.In(last, joinScripts...) && unicode.Is(unicode.M, last):
		return true
	case unicode.In(last, joinScripts...) && unicode.Is(unicode.L, last):
		return len(after) > 0 && unicode.In(after[0], joinScripts...) && unicode.In(after[0], unicode.L, unicode.M)
	case r == nonJoiner && unicode.In(last, unicode.L, unicode.Nd):
		return len(after) > 0 && unicode.In(after[0], joinScripts...) && unicode.Is(unicode.L, after[0])
	default:
		return r == joiner && pictorial(last) && len(after) > 0 && pictorial(after[0])
	}
}

// spacelessScripts are written without spaces between words. Keyboards for them
// write zeroSpace there, which shows where a line may end.
var spacelessScripts = []*unicode.RangeTable{
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Balinese, unicode.Javanese,
}

// parts reports whether a separator between two texts has a use there: between two
// letters of a script that is written with it.
func parts(before, after []rune, r rune) bool {
	if len(before) == 0 || len(after) == 0 {
		return false
	}
	scripts := spacelessScripts
	if r == vowelSeparator {
		scripts = []*unicode.RangeTable{unicode.Mongolian}
	}
	last, next := before[len(before)-1], after[0]
	return unicode.In(last, scripts...) && unicode.In(last, unicode.L, unicode.M) && unicode.In(next, scripts...) && unicode.Is(unicode.L, next)
}

// varies reports whether a variation selector between two texts has a use there:
// after a symbol, in a keycap, or after a letter of a script that has variants.
func varies(before, after []rune) bool {
	if len(before) == 0 {
		return false
	}
	switch last := before[len(before)-1]; {
	case pictorial(last):
		return true
	case last == '#' || last == '*' || '0' <= last && last <= '9':
		return len(after) > 0 && after[0] == keycap
	default:
		return unicode.In(last, unicode.Han, unicode.Mongolian, unicode.Myanmar, unicode.Phags_Pa)
	}
}

// pictorial reports whether a character is a symbol as emoji are. Five emoji are
// letters or punctuation to Unicode.
func pictorial(r rune) bool {
	switch r {
	case '‼', '⁉', '〰', '〽', 'ℹ':
		return true
	}
	return r > unicode.MaxASCII && unicode.In(r, unicode.So, unicode.Sm)
}

func skinTone(r rune) bool { return '\U0001f3fb' <= r && r <= '\U0001f3ff' }
