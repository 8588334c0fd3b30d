package main

import (
	"regexp"
	"strings"
)

var (
	routeSpan   = regexp.MustCompile(`^((?:GET|HEAD|POST|PUT|PATCH|DELETE)(?:\|(?:GET|HEAD|POST|PUT|PATCH|DELETE))*)(?: ([/…].*))?$`)
	pathSpan    = regexp.MustCompile(`^(?:\{base_url\})?(/[^\s{?]*(?:\{[^}]*\}[^\s{?]*)*)(.*)$`)
	parameter   = regexp.MustCompile(`\{[^}]*\}`)
	flagName    = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
	variable    = regexp.MustCompile(`^PARLEY_[A-Z_]+$`)
	headerSpan  = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9<>]+)+|webhook-[a-z]+|Authorization|Range|ETag|Allow|Vary)(?:: .*)?$`)
	messageType = regexp.MustCompile(`^(?:<brand>|svc)\.v1\.([a-z_]+)$`)
	methodSpan  = regexp.MustCompile(`^(?:message|tasks)/[a-z]+$|^List[A-Z][A-Za-z]+$`)
	errorClass  = regexp.MustCompile(`^[A-Z][A-Za-z]+Error$`)
	eventSpan   = regexp.MustCompile(`^(?:message|conversation|group|webhook|credential|contact)\.[a-z.|]+$`)
	streamSpan  = regexp.MustCompile(`^event: ([a-z]+)(?: (\{.*\}))?$`)
	bodySpan    = regexp.MustCompile(`^(?:data: )?(?:([A-Za-z0-9_.]+)(?: =|:)? ?)?\[?(\{.*\})\]?$`)
	querySpan   = regexp.MustCompile(`^\??([a-z_0-9]+)=([a-z_|]*)$`)
	chainSpan   = regexp.MustCompile(`^"?([A-Za-z][A-Za-z0-9_.]*)"?(?:\[\])?(?:(?::| = ?| ?= )(.*))?$`)
	dashedWord  = regexp.MustCompile(`^(?:hpke-v1|sender-key-v1|agent-card)$`)
	listSpan    = regexp.MustCompile(`^[a-z_0-9]+(?:(?:, | ?\| ?)[a-z_0-9]+)+$`)
	identifier  = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	product     = "parley "
)

// classify adds what a span names and reports whether it knows the span.
func (l *list) classify(text, before string) bool {
	if reason := reasonToDrop(text); reason != "" {
		l.dropped[text] = reason
		return true
	}
	for _, e := range implied[text] {
		l.add(e.kind, e.name)
	}
	if full, ok := written[text]; ok {
		text = full
	}
	for _, read := range []func(text, before string) bool{l.readNames, l.readCommand, l.readRoute, l.readPath, l.readMembers, l.readWords} {
		if read(text, before) {
			return true
		}
	}
	return false
}

// readNames reads what has a form of its own.
func (l *list) readNames(text, before string) bool {
	if m := streamSpan.FindStringSubmatch(text); m != nil {
		l.add("event", m[1])
		l.members(m[2])
		return true
	}
	if name, members, found := strings.Cut(text, " {"); found && eventSpan.MatchString(name) {
		l.add("event", name)
		l.members("{" + members)
		return true
	}
	switch {
	case eventSpan.MatchString(text):
		head, _, _ := strings.Cut(text, "|")
		prefix := head[:strings.LastIndex(head, ".")+1]
		for _, last := range strings.Split(text[len(prefix):], "|") {
			l.add("event", prefix+last)
		}
	case text == "RateLimit-Limit/-Remaining/-Reset":
		l.add("header", "RateLimit-Limit")
		l.add("header", "RateLimit-Remaining")
		l.add("header", "RateLimit-Reset")
	case headerSpan.MatchString(text):
		l.add("header", headerSpan.FindStringSubmatch(text)[1])
	case messageType.MatchString(text):
		l.add("type", "<brand>.v1."+messageType.FindStringSubmatch(text)[1])
	case methodSpan.MatchString(text):
		l.add("method", text)
	case errorClass.MatchString(text):
		l.add("error", text)
	case variable.MatchString(text):
		l.add("variable", text)
	default:
		return false
	}
	return true
}

// readCommand reads a command line with its flags, and flags alone.
func (l *list) readCommand(text, _ string) bool {
	flags := flagName.FindAllString(text, -1)
	if strings.HasPrefix(text, "--") {
		for _, name := range flags {
			l.add("flag", name)
		}
		if rate, ok := strings.CutPrefix(text, "--rate "); ok {
			l.add("rate", strings.TrimSuffix(rate, "=N"))
		}
		return true
	}
	if !strings.HasPrefix(text, product) {
		return false
	}
	commands := []string{"parley"}
	for _, word := range strings.Fields(text)[1:] {
		if !regexp.MustCompile(`^[a-z][a-z|-]*$`).MatchString(word) {
			break
		}
		var longer []string
		for _, command := range commands {
			for _, choice := range strings.Split(word, "|") {
				longer = append(longer, command+" "+choice)
			}
		}
		commands = longer
	}
	for _, command := range commands {
		l.add("command", command)
		// Where several commands share a span, its flags may be those of one alone.
		for _, name := range flags {
			if len(commands) == 1 {
				l.add("flag", command+" "+name)
			}
		}
	}
	return true
}

// readRoute reads a method with a path, its query and its body.
func (l *list) readRoute(text, _ string) bool {
	m := routeSpan.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	path, rest := l.route, ""
	switch {
	case m[2] == "" && l.route == "":
		return false
	case m[2] == "" && m[1] == "GET":
		path = strings.TrimSuffix(path, "/{}") // the list of what the route before puts
	case m[2] == "":
	case strings.HasPrefix(m[2], "…"):
		read := pathSpan.FindStringSubmatch(strings.TrimPrefix(m[2], "…"))
		path, rest = l.continued(read[1]), read[2]
	default:
		read := pathSpan.FindStringSubmatch(m[2])
		path, rest = strings.ReplaceAll(parameter.ReplaceAllString(read[1], "{}"), "/*", "/{}"), read[2]
	}
	if path == "" {
		return false
	}
	for _, method := range strings.Split(m[1], "|") {
		if method != "HEAD" { // every GET has it
			l.add("route", method+" "+path)
		}
	}
	l.route = path
	l.readRest(rest)
	return true
}

// continued returns the path that "…" and a suffix mean after the route named last.
func (l *list) continued(suffix string) string {
	suffix = parameter.ReplaceAllString(suffix, "{}")
	first := "/" + strings.Split(suffix, "/")[1]
	if at := strings.LastIndex(l.route, first+"/"); at >= 0 {
		return l.route[:at] + suffix
	}
	if at := strings.LastIndex(l.route, "/"); at > 0 {
		return l.route[:at] + suffix
	}
	return ""
}

// readRest reads what follows a path: query and body.
func (l *list) readRest(rest string) {
	if query, ok := strings.CutPrefix(rest, "?"); ok {
		query, rest, _ = strings.Cut(query, " ")
		for _, one := range strings.Split(query, "&") {
			name, value, _ := strings.Cut(one, "=")
			l.add("member", name)
			l.values(value)
		}
	}
	l.members(rest)
}

// readPath reads a path without a method: that of a route named elsewhere, or of a GET.
func (l *list) readPath(text, _ string) bool {
	if suffix, ok := strings.CutPrefix(text, "…"); ok {
		if path := l.continued(suffix); path != "" {
			l.add("route", "POST "+path)
			return true
		}
		return false
	}
	m := pathSpan.FindStringSubmatch(text)
	if m == nil || strings.Contains(m[1], "<") {
		return false
	}
	path, known := parameter.ReplaceAllString(m[1], "{}"), false
	for e := range l.mentions {
		if e.kind == "route" && strings.HasSuffix(e.name, path) {
			known = true
		}
	}
	if !known {
		l.add("route", "GET "+path)
	}
	l.readRest(m[2])
	return true
}

// readMembers reads bodies, and members with a value or a query parameter.
func (l *list) readMembers(text, _ string) bool {
	if m := bodySpan.FindStringSubmatch(text); m != nil {
		for _, name := range identifier.FindAllString(m[1], -1) {
			l.add("member", name)
		}
		l.members(m[2])
		return true
	}
	if m := querySpan.FindStringSubmatch(text); m != nil {
		l.add("member", m[1])
		l.values(m[2])
		return true
	}
	if strings.Contains(text, ":false, ") {
		l.members("{" + text + "}")
		return true
	}
	m := chainSpan.FindStringSubmatch(text)
	if m == nil || !strings.ContainsAny(text, ".[:=\"") && !strings.ContainsAny(text[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return false
	}
	for _, name := range strings.Split(m[1], ".") {
		if name != "GroupRead" {
			l.add("member", name)
		}
	}
	l.values(strings.Trim(m[2], `"`))
	return true
}

// readWords reads words of the wire: one, or a list of values.
func (l *list) readWords(text, before string) bool {
	switch {
	case listSpan.MatchString(text):
		if strings.HasSuffix(before, "Request statuses: ") {
			return true // readLists has read it
		}
		l.values(strings.ReplaceAll(strings.ReplaceAll(text, ", ", "|"), " ", ""))
		return true
	case dashedWord.MatchString(text):
		l.add("word", text)
		return true
	case bareWord.MatchString(text):
		l.values(text)
		return true
	}
	return false
}

// values adds the words of an alternation. settle decides what they are.
func (l *list) values(text string) {
	for _, word := range strings.Split(text, "|") {
		if bareWord.MatchString(word) && !notWords[word] && len(word) > 1 {
			l.add("word", word)
		}
	}
}

// settle turns words that are codes, statuses, quotas, events or members elsewhere into
// mentions of these.
func (l *list) settle() {
	for e, subjects := range l.mentions {
		if e.kind != "word" {
			continue
		}
		known := false
		for _, kind := range []string{"code", "status", "quota", "event", "member"} {
			other := entry{kind, e.name}
			if len(l.mentions[other]) > 0 {
				l.mentions[other] = append(l.mentions[other], subjects...)
				known = true
			}
		}
		if known {
			delete(l.mentions, e)
		}
	}
}

// notWords are types and constants.
var notWords = map[string]bool{"null": true, "true": true, "false": true, "int": true, "string": true, "bool": true}
