package main

import (
	"regexp"
	"strings"
)

var (
	endpointRow  = regexp.MustCompile(`(?m)^\| (GET|POST|PUT|PATCH|DELETE) \| ([^|]+) \|`)
	endpointHead = regexp.MustCompile(`(?m)^\*\*((?:GET|POST|PUT|PATCH|DELETE) /[^*\s]*)\*\*`)
	endpoint     = regexp.MustCompile(`(GET|POST|PUT|PATCH|DELETE) (/[^\s,?|]*)`)
	tableCell    = regexp.MustCompile(`^\| ([^|]+) \|`)
	errorRow     = regexp.MustCompile(`^\| ([A-Z][A-Za-z]+Error) \|`)
	stateList    = regexp.MustCompile("States: (`[^.]*)\\.")
	recordTypes  = regexp.MustCompile("^`org`, `user`")
)

// fieldTables are the titles of first columns that list members.
var fieldTables = map[string]bool{"Field": true, "Param": true}

// readSpec reads the specification's endpoints, fields, events, statuses, message types
// and error classes.
func (l *list) readSpec(text string) {
	l.subject = present
	for _, row := range endpointRow.FindAllStringSubmatch(text, -1) {
		l.endpoints(row[1] + " " + row[2])
	}
	for _, head := range endpointHead.FindAllStringSubmatch(text, -1) {
		l.endpoints(head[1])
	}
	for _, states := range stateList.FindAllStringSubmatch(text, -1) {
		l.addWords("status", states[1])
	}
	title, part := "", ""
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			part = strings.TrimLeft(line, "# ")
		}
		m := tableCell.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "|---"):
		case m == nil:
			title = ""
		case title == "":
			title = m[1]
		default:
			l.row(part, title, m[1], line)
		}
		l.specSpans(part, line)
	}
}

func (l *list) endpoints(text string) {
	for _, m := range endpoint.FindAllStringSubmatch(text, -1) {
		l.add("route", m[1]+" "+parameter.ReplaceAllString(m[2], "{}"))
	}
}

// row reads a row of a table.
func (l *list) row(part, title, first, line string) {
	switch {
	case fieldTables[title]:
		for _, name := range identifier.FindAllString(first, -1) {
			if name != "svc" { // the brand
				l.add("member", name)
			}
		}
	case title == "Event":
		l.add("event", first)
	case strings.HasPrefix(part, "Conversation status"):
		cells := strings.Split(line, "|")
		l.add("status", strings.TrimSpace(cells[1]))
		l.add("status", strings.TrimSpace(cells[4]))
	}
	if m := errorRow.FindStringSubmatch(line); m != nil {
		l.add("error", m[1])
	}
}

// specSpans reads the spans of a line whose kind is plain.
func (l *list) specSpans(part, line string) {
	eachSpan(line, func(text, before string) {
		switch {
		case messageType.MatchString(text) && !strings.HasSuffix(text, "*"):
			l.add("type", "<brand>.v1."+messageType.FindStringSubmatch(text)[1])
		case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && !strings.HasPrefix(text, "{base_url") && !strings.HasPrefix(text, "{service"):
			l.members(strings.ReplaceAll(text, "map<quota name, ", "map<"))
		case eventSpan.MatchString(text):
			l.add("event", text)
		case strings.HasSuffix(before, "code ") && bareWord.MatchString(text):
			l.add("code", text)
		case strings.HasPrefix(line, "JSON-RPC methods: ") && regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(text):
			l.add("method", text)
		case recordTypes.MatchString(line):
			l.add("word", text)
		case part == "Participant" || strings.HasPrefix(line, "Participant: "):
			l.values(text)
		}
	})
}
