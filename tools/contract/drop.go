package main

import "regexp"

// written are spans that leave out what they mean.
var written = map[string]string{
	"status --json":                  "parley cluster status --json",
	"agent revoke":                   "parley agent revoke",
	"org credentials reset SLUG":     "parley org credentials reset SLUG",
	"agent list --org SLUG":          "parley agent list --org SLUG",
	"agent revoke HANDLE --operator": "parley agent revoke HANDLE --operator",
	"cluster remove":                 "parley cluster remove",
	"authority rotate":               "parley cluster authority rotate",
	"revoke ID":                      "parley registration token revoke ID",
	"--advertise":                    "parley cluster init --advertise HOST:PORT",
	"--reason":                       "parley org suspend --reason",
	"--now":                          "parley key rotate --now",
	"quota, limit, used, resets_at":  "{quota, limit, used, resets_at}",
	"serve --cluster-peers HOST:PORT,… --cluster-secret-file F": "--cluster-peers HOST:PORT,… --cluster-secret-file F",
}

// implied are entries that the words around a span name.
var implied = map[string][]entry{
	"/org/allows": {{"route", "GET /org/allows"}, {"route", "PUT /org/allows/{}"}, {"route", "DELETE /org/allows/{}"}},
	"parley registration token create [--uses N=1] [--expires 7d] [--tier T]": {{"command", "parley registration token list"}},
	"parley operator token create|list|revoke NAME --role R":                  {{"flag", "parley operator token create --role"}},
}

const (
	aFile     = "a file, not part of the interface on the wire"
	aSign     = "a sign or an empty value"
	aPrefix   = "a prefix of names, which are listed one by one"
	aPart     = "part of a route that is listed in full"
	aShape    = "how a value is composed; its parts are listed"
	aValue    = "a value of a header"
	aCommand  = "part of a command that is listed in full"
	anExample = "an example"
	aTest     = "a test of the product"
	aScheme   = "the name of a format, whose bytes its own vectors check"
	theName   = "the name of the product, or of its brand"
)

// noEntries are spans that name nothing of the interface, with the reason.
var noEntries = map[string]string{
	"spec.md": aFile, "openapi.json": "the route GET /openapi.json is listed", "admin.token": aFile, "DATA/admin.token": aFile, "master.key.next": aFile,
	"$CREDENTIALS_DIRECTORY/master.key": aFile, "facts/a2a-and-standards.md": aFile,
	"Z": aSign, "+": aSign, "[]": aSign, "@": aSign, "_": aSign, "*": aSign, "\\": aSign, ".": aSign, "..": aSign, " (2)": aSign, "/": aSign, "*/*": aSign, "tenant": "a member of A2A that the server ignores", "d": "a member that is refused in keys", "false": aSign,
	"<brand>.v1.*": aPrefix, "PARLEY_<FLAG>": "derived from each flag; the test of the command line checks it", "xn--": aPrefix, "X-*": aPrefix, "RateLimit-*": aPrefix,
	"utm_": aPrefix, "whsec_": aPrefix, "/directory/*": aPrefix, "/org*": aPrefix,
	".well-known/agent-cards": aPart, "DELETE …/requests": aPart, "POST|PATCH|DELETE /agents": aPart, "/reply": aPart,
	"nosniff": aValue, "sandbox": aValue, "parley: listening on http://ADDR": "the line that a started server prints; every black-box test waits for it",
	"verify": aCommand, "remove": aCommand, "replace": aCommand, "list": aCommand,
	"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo": anExample, "en-GB": anExample, "language=en": anExample, "<slug>.<service domain>": anExample,
	"trust_domain → bundle file": "how --trust-bundle is written", "[\"message.received\"]": "a default of entries that are listed",
	"[\"query\", name]": aShape, "[\"body\", name]": aShape,
	"\"<brand>-keys-v1\\n\" + agent_id + \"\\n\" + handle + \"\\n\" + signing kid + \"\\n\" + encryption kid + \"\\n\" + signed_at": aShape,
	"\"<brand>-svid-v1\\0\" ‖ agent_id ‖ \"\\0\" ‖ nonce":                                                                           aShape,
	"oauth [org]": aShape, "oauth [agents]": aShape, "TestRowsOfAMessage": aTest, "messageBounds": aTest,
	"file-v1": aScheme, "parley/file-v1/commit": aScheme, "parley/file-v1/key": aScheme, "parley/hpke-v1/parts/2": aScheme, "/3": aScheme, "…/signature/2": aScheme,
	"<brand>": theName, "svc": theName, "parley": theName,
}

var noEntryPatterns = []struct {
	form   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^-?[0-9]+$`), "a number"},
	{regexp.MustCompile(`^(?:application|text|type)/[a-z*]`), "a media type"},
	{regexp.MustCompile(`^\^`), "a regular expression"},
	{regexp.MustCompile(`^%[0-9A-F]{2}$`), "a percent encoding"},
}

func reasonToDrop(text string) string {
	if reason := noEntries[text]; reason != "" {
		return reason
	}
	for _, p := range noEntryPatterns {
		if p.form.MatchString(text) {
			return p.reason
		}
	}
	return ""
}
