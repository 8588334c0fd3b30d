package main

import (
	"regexp"
	"strings"
)

var (
	remark = regexp.MustCompile(`\([^()]*\)`)
	quoted = regexp.MustCompile(`^"[^"]*"`)
)

// members adds the members of the bodies in a text such as
// {code, limit? 1-20 (1), state:"open"|"complete", items:[{id}]}: a name is what follows
// a brace or a comma directly within braces, or an alternative to it. What follows a colon
// are its values.
func (l *list) members(text string) {
	text = remark.ReplaceAllString(text, "")
	var open []byte // the brackets around the position
	naming := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch c := text[i]; {
		case c == '{' || c == '[':
			open = append(open, c)
			naming = c == '{'
		case c == '}' || c == ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			naming = false
		case c == ',':
			naming = len(open) > 0 && open[len(open)-1] == '{'
		case len(open) == 0 || c == ' ' || c == '|' || c == '?':
		case naming && c == '"' || naming && identifier.FindStringIndex(rest) != nil && identifier.FindStringIndex(rest)[0] == 0:
			name := identifier.FindString(rest)
			i += strings.Index(rest, name) + len(name) - 1
			if c == '"' {
				i++
			}
			if name != "null" {
				l.add("member", name)
			}
			after := strings.TrimLeft(text[i+1:], "? ")
			naming = strings.HasPrefix(after, "|") // an alternative name follows
		case c == '"':
			value := quoted.FindString(rest)
			i += max(len(value), 1) - 1
			l.values(strings.Trim(value, `"`))
		case c == ':':
			i += l.alternatives(text[i+1:])
		}
	}
}

var alternation = regexp.MustCompile(`^ ?'?([a-z_]+(?:\|[a-z_.0-9-]+)+|[a-z_]+')`)

// alternatives adds unquoted values such as open|complete and returns their length.
func (l *list) alternatives(text string) int {
	m := alternation.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	l.values(strings.Trim(m[1], "'"))
	return len(m[0])
}
