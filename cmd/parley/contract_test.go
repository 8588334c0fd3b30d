package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// promise is a line of testdata/contract.txt: a name of a kind, and the subject of the
// later work that brings it, empty if it is there.
type promise struct{ kind, name, later string }

func (p promise) String() string { return p.kind + " " + p.name }

// missing lists what is promised but not there, with the reason. It only shrinks.
var missing = map[string]string{}

// otherMeanings lists names of later work that the product has with another meaning.
var otherMeanings = map[string]string{
	"member domain": "the domain of a server in its answers; later also the host that /tls/ask is about",
	"member from":   "the smaller tree of a consistency proof; later also the sender whose messages are claimed",
	"member size":   "the size of the key log; later also that of an attachment",
}

const (
	forClients  = "a command of the client; the interface leaves the client open"
	forOperator = "for the operator, who works on the machine of the server"
	forPeople   = "a page for people"
	forProofs   = "the key log, by which clients detect a lying server"
	forAdmin    = "a call of the command line to the admin listener; its commands are promised"
	forTuning   = "fits a server to its machine and network"
	forNotice   = "fills GET /compliance/info"
	forSearch   = "chooses what makes the vectors for searches by meaning"
	forBounds   = "bounds a list of an agent, which GET /org/quotas does not show"
	forProbes   = "a reason of /readyz or of the admin listener, which operators see"
)

// beyondPromises lists what the product has and nothing promises, with what it is for. A
// star stands for any ending. The flags of a command that is listed need no entry.
var beyondPromises = map[string]string{
	"command parley a2a *": forClients, "command parley ack": forClients, "command parley block *": forClients, "command parley agent *": forClients, "command parley card *": forClients,
	"command parley conversation *": forClients, "command parley demo": forClients, "command parley directory *": forClients, "command parley erase": forClients, "command parley credential *": forClients,
	"command parley group *": forClients, "command parley inbox": forClients, "command parley receipt *": forClients, "command parley register": forClients,
	"command parley reply": forClients, "command parley send": forClients, "command parley trace": forClients, "command parley verify-keys": forClients,
	"command parley watch": forClients, "command parley webhook *": forClients, "command parley key show": forClients, "command parley key retire": forClients,
	"command parley key restore": forClients, "command parley completion": forClients, "command parley bench": "measures a server", "flag parley export *": forClients,

	"command parley backup *": forOperator, "command parley restore": forOperator, "command parley quarantine *": forOperator, "command parley cluster recover": forOperator,
	"command parley org approve": forOperator, "command parley org quota": forOperator, "command parley org tier": forOperator,
	"flag parley cluster balance --to": forOperator, "flag parley cluster init --node-name": forOperator, "flag parley verify --diverged": forOperator,
	"flag parley key rotate --cards": forOperator, "flag parley key rotate --receipts": forOperator,

	"route GET /": "name and version of the service", "route GET /a/{}": forPeople, "route GET /g/{}": forPeople, "route GET /find/*": forPeople,
	"route GET /assets/{}": forPeople, "route GET /docs/{}": "files of /docs", "route GET /key-log*": forProofs, "route GET /agents/{}/key-log": forProofs,
	"route GET /messages/{}/receipt": "a signed proof that the service accepted a message", "route DELETE /agents/{}/keys/pq": "takes back what POST sets",
	"route GET /a2a/{}/.well-known/agent-card.json": "the A2A card where A2A's clients look for it", "route GET /ext/{}/v1": "describes the extension that A2A cards name",
	"route GET /metrics": "metrics", "route GET /debug/pprof/*": "profiles, at the admin listener", "route GET /cluster/status": forAdmin, "route POST /cluster/*": forAdmin,
	"route GET /orgs": forAdmin, "route GET /orgs/{}": forAdmin, "route POST /orgs/{}/*": forAdmin, "route GET /reports": forAdmin, "route POST /reports/{}/close": forAdmin,
	"flag parley report list --closed": forOperator, "route POST /backup": forAdmin, "route POST /signing-keys/rotate": forAdmin,

	"code draining": forProbes, "code follows": forProbes, "code clock": forProbes, "code no_leader": forProbes, "code ambiguous": forProbes, "code cross_site": forProbes,
	"code forbidden": forProbes, "code host_not_allowed": forProbes, "code node_required": forProbes, "code not_handed_over": forProbes, "code not_ready": forProbes,
	"code other_node": forProbes, "code too_few_nodes": forProbes, "code content_type_not_supported": "A2A's own reason for -32005",
	"code damaged": forProbes, "code master_key": forProbes,
	"quota former_keys": forBounds, "quota key_bindings": forBounds, "quota key_packages": forBounds,
	"rate token_failures": "wrong secrets, which count by address alone; the rule names no word for it",

	"flag parley serve --accept-loss": forOperator, "flag parley serve --access-log": forTuning, "flag parley serve --backup-dir": forOperator,
	"flag parley serve --cache": forTuning, "flag parley serve --cluster-advertise": forTuning, "flag parley serve --connections-per-address": forTuning,
	"flag parley serve --data-location": forNotice, "flag parley serve --disk-reserve": forTuning, "flag parley serve --embeddings*": forSearch,
	"flag parley serve --erasure-list": "keeps the list of erased organizations apart from the data", "flag parley serve --gc-headroom": forTuning,
	"flag parley serve --hints": "prints next steps", "flag parley serve --log-*": forTuning, "flag parley serve --memory-limit": forTuning,
	"flag parley serve --node-name": forTuning, "flag parley serve --notice-updated": forNotice, "flag parley serve --otlp-endpoint": "where traces go",
	"flag parley serve --privacy-policy": forNotice, "flag parley serve --provider-*": forNotice, "flag parley serve --quota": "sets any number of the quotas",
	"flag parley serve --smtp-*": "sends the mail of --tier1 email", "flag parley serve --subprocessors": forNotice, "flag parley serve --trace-share": "how many traces are kept",
	"flag parley serve --trust-bundle": "names the trust bundles of workload identities", "flag parley serve --trusted-proxies": "names the proxies whose X-Forwarded-For counts",
	"flag parley serve --webhook-ca": forTuning, "flag parley serve --webhook-concurrency": forTuning, "flag parley config *": "shows the settings of serve",
}

// promises reads testdata/contract.txt, which docs/contributing.md says how to make.
func promises(t *testing.T) []promise {
	t.Helper()
	text, err := os.ReadFile("testdata/contract.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []promise
	for line := range strings.Lines(string(text)) {
		entry, later, _ := strings.Cut(strings.TrimSpace(line), " later: ")
		kind, name, ok := strings.Cut(entry, " ")
		if !ok {
			t.Fatalf("%q is not an entry", line)
		}
		all = append(all, promise{kind, name, later})
	}
	return all
}

// TestContract: the product has every name that testdata/contract.txt promises, has none
// that is marked as later, and has no route, flag, command, code, event, quota or rate
// that neither it nor beyondPromises lists.
func TestContract(t *testing.T) {
	for _, complaint := range compareNames(promises(t), productNames(t)) {
		t.Error(complaint)
	}
}

// compareNames returns the differences between what is promised and the product's names.
func compareNames(promised []promise, product names) (complaints []string) {
	known := map[string]bool{}
	for _, p := range promised {
		known[p.String()] = true
		there := product.has(p)
		switch {
		case p.later == "" && there && missing[p.String()] != "":
			complaints = append(complaints, p.String()+" is listed as missing, but the product has it")
		case p.later == "" && !there && missing[p.String()] == "":
			complaints = append(complaints, p.String()+" is promised, but the product does not have it")
		case p.later != "" && product.shows(p) && otherMeanings[p.String()] == "":
			complaints = append(complaints, fmt.Sprintf("%s is marked as later (%s), but the product has it: the mark has to go", p, p.later))
		}
	}
	for _, kind := range []string{"route", "flag", "command", "code", "event", "quota", "rate"} {
		for _, name := range slices.Sorted(maps.Keys(product[kind])) {
			entry := kind + " " + name
			if product[kind][name] && !known[entry] && !impliedFlag(kind, name, known) && !isBeyond(entry) {
				complaints = append(complaints, entry+" is in the product, but is neither promised nor listed as beyond that")
			}
		}
	}
	for _, list := range []map[string]string{missing, otherMeanings} {
		for entry := range list {
			if !known[entry] {
				complaints = append(complaints, entry+" is in a list of exceptions, but is not promised")
			}
		}
	}
	return complaints
}

// impliedFlag reports whether a flag needs no promise of its own: --help and --json, which
// all commands have; --reason, which all changes of an operator have; one without its command, which is judged with it; one that is promised
// for any command; and one of a command that is beyond the promises itself.
func impliedFlag(kind, name string, known map[string]bool) bool {
	if kind != "flag" {
		return false
	}
	command, flag, _ := strings.Cut(name, " --")
	return strings.HasPrefix(name, "--") || flag == "help" || flag == "json" || flag == "reason" || known["flag --"+flag] || isBeyond("command "+command)
}

// has reports whether the product has a name.
func (n names) has(p promise) bool {
	switch p.kind {
	case "header":
		suffix, branded := strings.CutPrefix(p.name, "X-<Brand>") // the source puts it together
		return n["header"][p.name] || branded && n["literal"][suffix] || n["header constant"][strings.ToLower(strings.ReplaceAll(p.name, "-", ""))]
	case "type":
		return n["literal"][strings.TrimPrefix(p.name, "<brand>.v1.")]
	case "method", "error", "variable":
		return n[p.kind][p.name] || n["literal"][p.name]
	}
	return n[p.kind][p.name]
}

// shows reports whether the product has a name of later work. Members, words and headers
// count only if /openapi.json shows them: in the source such a word means many things.
func (n names) shows(p promise) bool {
	if shown, ok := n[p.kind+" shown"]; ok {
		return shown[p.name]
	}
	return n.has(p)
}

// isBeyond reports whether beyondPromises lists an entry, or the beginning of it with a star.
func isBeyond(entry string) bool {
	if beyondPromises[entry] != "" {
		return true
	}
	for listed := range beyondPromises {
		if start, ok := strings.CutSuffix(listed, "*"); ok && strings.HasPrefix(entry, start) {
			return true
		}
	}
	return false
}

// TestContractControl: the comparison names each of ten names that are removed from the
// product, and each of ten that it gains.
func TestContractControl(t *testing.T) {
	promised, product := promises(t), productNames(t)
	sound := len(compareNames(promised, product))
	change := func(p promise, there bool, want string) {
		t.Helper()
		before, kinds := product[p.kind][p.name], []string{p.kind, p.kind + " shown"}
		for _, kind := range kinds {
			if product[kind] != nil {
				product[kind][p.name] = there
			}
		}
		found := compareNames(promised, product)
		for _, kind := range kinds {
			if product[kind] != nil {
				product[kind][p.name] = before
			}
		}
		said := slices.ContainsFunc(found, func(c string) bool { return strings.HasPrefix(c, p.String()+" ") && strings.Contains(c, want) })
		if before == there || len(found) != sound+1 || !said {
			t.Errorf("%s set to %v: %d complaints, of which %d without that; named: %v", p, there, len(found), sound, said)
		}
	}
	for _, p := range []promise{
		{kind: "route", name: "POST /groups/{}/invite"},
		{kind: "flag", name: "--poll-limit"},
		{kind: "flag", name: "parley cluster init --advertise"},
		{kind: "command", name: "parley org hold"},
		{kind: "code", name: "legal_hold"},
		{kind: "event", name: "group.member.left"},
		{kind: "status", name: "declined"},
		{kind: "quota", name: "invitations_per_day"},
		{kind: "rate", name: "pair"},
		{kind: "member", name: "you_may_vote_reason"},
	} {
		change(p, false, "is promised, but")
	}
	for _, p := range []promise{
		{kind: "route", name: "POST /blobs"},
		{kind: "flag", name: "--retention"},
		{kind: "command", name: "parley audit"},
		{kind: "code", name: "lease_lost"},
		{kind: "event", name: "contact.knocked"},
		{kind: "quota", name: "knocks"},
		{kind: "member", name: "lease_until"},
	} {
		change(p, true, "the mark has to go")
	}
	for _, p := range []promise{{kind: "route", name: "POST /surprise"}, {kind: "code", name: "surprise"}, {kind: "rate", name: "surprise"}} {
		change(p, true, "neither promised nor listed")
	}
}
