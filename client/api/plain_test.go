package api

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// shownNames are names in common spellings.
var shownNames = []string{
	"Acme", "Söhne & Co. KG", "אחד שתיים", "شركة", "می\u200cخواهم", "مُ\u200cن", // Persian, also after a vowel sign
	"क्\u200dष", "क्\u200c", "ക\u0d4d\u200d", "ശ്രീലങ്ക", "ශ්\u200dරී ලංකා", "র\u200d্যাম", // virama and joiner, also at the end
	"👩\u200d💻 & Söhne", "👩🏽\u200d🚀", "❤\ufe0f\u200d🔥", "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f", "👨\u200d👩\u200d👧", "1\ufe0f\u20e3 Place", "ℹ\ufe0f Desk", "™\ufe0e",
	"PDF\u200cها", "۲۰\u200cساله", "٢٠\u200cسال", "مـ\u200cن", // Persian endings of foreign words and numbers
	"ភាសា\u200bខ្មែរ", "ไทย\u200bแลนด์", "ລາວ\u200bລາວ", "မြန်မာ\u200bစာ", "ᠬᠠᠷ\u180eᠠ", "〽\ufe0f Music",
	"葛\U000e0100城", "ᠮᠣᠩᠭᠣᠯ\u180b", "\u0600١٢", // variants, and a format character with a glyph
}

// hiddenRunes are invisible, wherever they stand among letters.
func hiddenRunes() (all []rune) {
	for _, span := range [][2]rune{
		{0, 0x1f},
		{0x7f, 0x9f},
		{0xad, 0xad},
		{0x34f, 0x34f},
		{0x61c, 0x61c},
		{0x115f, 0x1160},
		{0x180e, 0x180e},
		{0x200b, 0x200f},
		{0x2028, 0x202e},
		{0x2060, 0x206f},
		{0x3164, 0x3164},
		{0xfe00, 0xfe0f},
		{0xfeff, 0xfeff},
		{0xffa0, 0xffa0},
		{0xfff0, 0xfffb},
		{0xe0000, 0xe01ff},
	} {
		for r := span[0]; r <= span[1]; r++ {
			all = append(all, r)
		}
	}
	return all
}

// hides returns those names with a hidden character that the check accepts.
func hides(judge func(string) bool) (passed []string) {
	for _, r := range hiddenRunes() {
		for _, name := range []string{"Ac%sme", "%sAcme", "Acme%s", "Acme %s Inc", "שתיים%s", "Аcm%sе", "7%s7"} {
			if name = fmt.Sprintf(name, string(r)); judge(name) {
				passed = append(passed, name)
			}
		}
	}
	for _, name := range []string{ // joiners and selectors where they have no effect
		"خ\u200c", "خ\u200d خ", "م\u200c\u200cم", "क\u200c ", "👩\u200d", "\u200d👩", "👩\u200c💻", "👩\u200dA", "A\u200d👩", "❤\ufe0f\ufe0f", "+\ufe0f", "1\ufe0f", "漢\u200d字",
		"Acme\u200cשתיים", "A\u200dخ", "1\u200c خ", "ไทย\u200b", "\u200bไทย", "ไทย\u200b\u200bไทย", "ไทย\u200bA", "A\u200bไทย", "ᠠ\u180e", "\u180eᠠ", "ᠠ\u180e\u180eᠠ",
		"🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
	} {
		if judge(name) {
			passed = append(passed, name)
		}
	}
	return passed
}

func TestNamesWithHiddenCharactersAreRefused(t *testing.T) {
	named := func(name string) bool { return len((&Register{Email: "a@b.c", OrgName: &name}).Check()) == 0 }
	for _, name := range shownNames {
		if !named(name) {
			t.Errorf("%+q is refused", name)
		}
	}
	for _, name := range hides(named) {
		t.Errorf("%+q is accepted", name)
	}
}

// TestNamesWithHiddenCharactersAreRefusedControl checks only for control and direction
// characters.
func TestNamesWithHiddenCharactersAreRefusedControl(t *testing.T) {
	former := func(name string) bool {
		return !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
	}
	passed := strings.Join(hides(former), "|")
	for _, r := range []rune{0x200b, 0x200c, 0x2028, 0x2060, 0xfeff, 0xe0041} {
		if !strings.Contains(passed, "Ac"+string(r)+"me") {
			t.Errorf("without the rule, %U is refused", r)
		}
	}
}
