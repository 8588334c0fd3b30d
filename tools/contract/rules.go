package main

import (
	"regexp"
	"strings"
)

// laterSubjects are the bold headings of paragraphs about later work, with the subject that
// marks their entries. A paragraph without a heading continues the one before it.
var laterSubjects = map[string]string{
	"Allow lists and first contact": "allow lists and first contact", "Claims": "claims", "Attachments": "attachments",
	"Retention": "retention", "Operators": "operators", "Audit": "audit", "Master key": "master key", "Nodes and probes": "nodes and probes",
}

// decidedSubjects are the entries whose subject their paragraph does not give.
var decidedSubjects = map[string]string{
	"route GET /org/credentials":               present,
	"code insufficient_scope":                  present,
	"quota scoped_credentials":                 present,
	"word exp":                                 present,
	"word last_used_at":                        present,
	"word scopes_supported":                    present,
	"route GET /livez":                         present, // at the admin and the metrics listener
	"member for":                               present,
	"word reads":                               present,
	"word claim":                               "claims",
	"member knock":                             "allow lists and first contact",
	"command parley agent list":                present, // a client's command, which gains --org
	"command parley agent revoke":              present, // likewise, --operator
	"command parley org list":                  present,
	"command parley operator token create":     present,
	"flag parley operator token create --role": present,
	"flag parley org suspend --reason":         present,
	"command parley operator token list":       present,
	"command parley operator token revoke":     present,
	"command parley org show":                  present,
	"command parley export":                    present,
	"command parley verify":                    present,
	"flag --admin":                             present,
	"variable PARLEY_MASTER_KEY":               present,
	"flag parley key rotate --now":             present,
	"header ETag":                              present,
	"route GET /org/allows":                    "allow lists and first contact",
	"route PUT /org/allows/{}":                 "allow lists and first contact",
	"route DELETE /org/allows/{}":              "allow lists and first contact",
	"route GET /org/audit":                     "audit",
	"flag --reports-webhook":                   "reports webhook",
	"flag --reports-webhook-secret-file":       "reports webhook",
	"flag --cluster-peers":                     "cluster peers",
	"flag --cluster-secret-file":               "cluster peers",
	"flag --tls-cert":                          "TLS",
	"flag --tls-key":                           "TLS",
	"flag --tls-ask-max":                       "TLS",
	"route GET /tls/ask":                       "TLS",
	"command parley cluster authority rotate":  "authority rotation",
}

var (
	heading   = regexp.MustCompile(`^\*\*([A-Z][A-Za-z0-9 ]*?)(?: \([0-9, ]+\))?[.,]?(?: \([0-9, ]+\))?,?\*\*`)
	section   = regexp.MustCompile(`^## ([0-9]+)\.`)
	span      = regexp.MustCompile("`([^`]+)`")
	codeList  = regexp.MustCompile(`Codes(?: added)?: ([a-z0-9_]+(?: \([0-9]+\))?(?:, [a-z0-9_]+(?: \([0-9]+\))?)*)`)
	wordIn    = regexp.MustCompile(`[a-z][a-z0-9_]+`)
	quotaList = regexp.MustCompile(`Quota names added: ([a-z0-9_, ]+)\.`)
	rateList  = regexp.MustCompile(`Rate limits \([^)]*\): ([^.]*)\.`)
	rateName  = regexp.MustCompile(`([a-zA-Z0-9 ]+?) \d+/`)
	wordList  = regexp.MustCompile(`^[a-z_0-9]+(?:, [a-z_0-9]+)+$`)
)

// readRules reads the file with the rules.
func (l *list) readRules(text string) {
	lines := strings.Split(text, "\n")
	// What names a kind of its own comes first, so that a bare word is recognized everywhere.
	for pass := range 2 {
		within, subject := "", present
		for _, line := range lines {
			if m := section.FindStringSubmatch(line); m != nil {
				within, subject = m[1], present
			}
			if m := heading.FindStringSubmatch(line); m != nil && within == "16" {
				subject = laterSubjects[m[1]]
			}
			l.subject = subject
			if strings.HasPrefix(line, "Success: ") && within == "16" {
				l.subject = neutral
			}
			if pass == 0 {
				l.readLists(line)
			} else {
				l.readSpans(line)
			}
		}
	}
}

// readLists reads what a line lists: codes, statuses, quotas and rates.
func (l *list) readLists(line string) {
	for _, m := range codeList.FindAllStringSubmatch(line, -1) {
		l.addWords("code", m[1])
	}
	if strings.HasPrefix(line, "Codes: ") || strings.HasPrefix(line, "not_found, name_taken") || strings.HasPrefix(line, "challenge_used, ") {
		l.addWords("code", strings.TrimPrefix(line, "Codes: "))
	}
	for _, m := range quotaList.FindAllStringSubmatch(line, -1) {
		l.addWords("quota", m[1])
	}
	for _, m := range rateList.FindAllStringSubmatch(line, -1) {
		_, after, _ := strings.Cut(m[0], "): ")
		for _, name := range rateName.FindAllStringSubmatch(after, -1) {
			name := strings.ToLower(strings.Fields(name[1])[0]) // "public reads" is the rate public
			l.add("rate", name)
		}
	}
	eachSpan(line, func(text, before string) {
		switch {
		case afterCode.MatchString(before) && bareWord.MatchString(text) && !schemaTypes[text]:
			l.add("code", text)
		case strings.HasSuffix(before, "Request statuses: "):
			l.addWords("status", text)
		case strings.HasSuffix(before, "Request statuses gain "):
			l.add("status", text)
		case strings.HasSuffix(before, "quota ") && bareWord.MatchString(text):
			l.add("quota", text)
		case strings.HasSuffix(before, "Rate "):
			l.add("rate", text)
		}
	})
	if _, after, found := strings.Cut(line, "Quotas of `GET /org/quotas`: "); found {
		after, _, _ = strings.Cut(after, ". ")
		eachSpan(after, func(text, _ string) {
			if bareWord.MatchString(text) && text != "resets_at" {
				l.add("quota", text)
			}
		})
	}
	if strings.HasPrefix(line, "**Quotas (5)") {
		eachSpan(line, func(text, _ string) {
			if strings.HasSuffix(text, "_per_day") || text == "stored_bytes" {
				l.add("quota", text)
			}
		})
	}
}

func (l *list) addWords(kind, text string) {
	for _, word := range wordIn.FindAllString(text, -1) {
		l.add(kind, word)
	}
}

var (
	afterCode = regexp.MustCompile(`\b[345]\d\d $`)
	bareWord  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// schemaTypes are the types of schema errors that stand where a code would.
var schemaTypes = map[string]bool{"extra_forbidden": true}

// eachSpan calls do with each back-ticked span of a line and the text before it.
func eachSpan(line string, do func(text, before string)) {
	for _, at := range span.FindAllStringSubmatchIndex(line, -1) {
		do(line[at[2]:at[3]], line[:at[0]])
	}
}

func (l *list) readSpans(line string) {
	l.route = ""
	eachSpan(line, func(text, before string) {
		if !l.classify(text, before) {
			l.unknown = append(l.unknown, text)
		}
	})
}
