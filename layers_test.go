package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// place is a package's place in the layers: which packages of this module it may
// import, which ones its tests may import in addition, and the reason.
type place struct {
	may   []string
	tests []string
	// pure packages hold rules: no I/O, clock, goroutine, lock, log, context.
	pure bool
	why  string
}

// lattice is the picture of docs/architecture.md as data. It is policy: if a package
// needs an import that is not listed here, the code is usually in the wrong package.
// Move it instead of extending the list. A path that ends in /... matches every
// package below it.
var lattice = map[string]place{
	// Base.
	"parley":                   {tests: []string{"parley/http"}, why: "the root of the module has no code, only tests of the whole tree"},
	"parley/client/parley":     {why: "ids, handles and refusals depend on nothing of this module"},
	"parley/client/api":        {may: ground, why: "wire structs are shared with clients, which must not link the server"},
	"parley/client":            {may: []string{"parley/client/parley", "parley/client/api", "parley/client/secretfile"}, tests: []string{"parley/client/clienttest"}, why: "a user of the client must not link Pebble or the server, and one that sends no sealed messages needs no keys"},
	"parley/client/e2ee":       {may: []string{"parley/client/parley", "parley/client/api", "parley/client", "parley/client/secretfile"}, tests: []string{"parley/client/clienttest"}, why: "private keys and pins are a matter of those who seal and open, not of those who make calls"},
	"parley/client/keylog":     {may: []string{"parley/client/parley", "parley/client/api", "parley/client", "parley/client/secretfile"}, tests: []string{"parley/client/clienttest"}, why: "what a server says about keys is verified without private keys"},
	"parley/client/receipts":   {may: []string{"parley/client/parley", "parley/client/api"}, why: "a receipt is verified without a server, years later"},
	"parley/client/deliveries": {may: []string{"parley/client/api"}, why: "a receiver of deliveries makes no calls"},
	"parley/client/secretfile": {why: "how a secret is stored depends on nothing that it is for"},
	"parley/client/clienttest": {may: []string{"parley/client/parley", "parley/client/api"}, why: "a server for tests of the client must not import the client"},

	// What actors and storage agree on.
	"parley/journal/report": {may: ground, why: "the report of a verification depends neither on the checks nor on what is checked"},
	"parley/journal":        {may: ground, why: "the contract between actors and storage depends on neither"},

	// Rules.
	"parley/actors/org":          {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/agent":        {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/conversation": {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/registration": {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/issuer":       {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/operator":     {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/keylog":       {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/group":        {may: ground, tests: stories, pure: true, why: ruleWhy},
	"parley/actors/webhook":      {may: ground, tests: stories, pure: true, why: ruleWhy},

	"parley/actors/record": {may: slices.Concat(ground, agreed, aggregates), tests: []string{"parley/actors/encoding"}, why: "everything stored beside events is encoded in one package"},

	"parley/actors/encoding": {why: "what is encoded is known by its type alone"},
	"parley/actors/rules":    {may: slices.Concat(ground, agreed, aggregates, []string{"parley/actors/encoding", "parley/actors/record"}), why: "code that runs aggregates sees each of them through one type; a first message stands for the start of a conversation"},

	// Server packages. Packages of one layer never import each other: actors declares
	// the interfaces that it needs, and the others implement them.
	"parley/actors/verify":       {may: slices.Concat(ground, agreed, rules), why: "a verifier must not share code with the writer of the data, except for rules and encodings"},
	"parley/actors/wire":         {may: ground, why: "how a value crosses between nodes follows from its type; what it means is not known here"},
	"parley/actors/host":         {may: slices.Concat(ground, agreed, rules), why: "one loop runs the actors of every kind and does not know what they decide"},
	"parley/actors/query/cache":  {may: slices.Concat(ground, agreed, []string{"parley/actors/record"}), why: "a cache keeps what others read"},
	"parley/actors/query/export": {may: slices.Concat(ground, agreed, rules, []string{"parley/actors/query"}), why: "an export reads what is stored; no actor takes part"},
	"parley/actors/query":        {may: slices.Concat(ground, agreed, rules, []string{"parley/actors/query/cache"}), why: "a query reads what is stored; no actor takes part"},
	"parley/actors/directory": {
		may: slices.Concat(ground, []string{"parley/actors/directory/words"}),
		why: "an index ranks documents that it is given; it knows neither journals nor what makes vectors",
	},
	"parley/actors/directory/embed": {
		may:   slices.Concat(ground, []string{"parley/actors/directory/words"}),
		tests: []string{"parley/actors/directory"},
		why:   "a provider makes vectors of texts and does not know what they are compared with",
	},
	"parley/actors/directory/words": {why: "how a text is divided into terms depends on nothing"},
	"parley/actors/delivery": {
		may: slices.Concat(ground, agreed, rules, []string{"parley/actors/host", "parley/actors/query"}),
		why: "deliveries follow feeds, and do not know what puts entries into them",
	},
	"parley/actors/erasure": {
		may: slices.Concat(ground, agreed, rules, []string{"parley/actors/query"}),
		why: "an erasure works with rows in the clear, and knows actors through an interface",
	},
	"parley/actors/projection": {
		may:   slices.Concat(ground, agreed, rules, []string{"parley/actors/directory", "parley/actors/directory/embed"}),
		tests: []string{"parley/actors", "parley/persistence", "parley/persistence/seal", "parley/persistence/seal/sealtest", "parley/persistence/sealed"},
		why:   "an index in memory follows what journals apply; no actor takes part",
	},
	"parley/actors": {
		may:   slices.Concat(ground, agreed, rules, []string{"parley/actors/delivery", "parley/actors/erasure", "parley/actors/host", "parley/actors/query", "parley/actors/query/export", "parley/actors/wire"}),
		tests: []string{"parley/actors/actorstest", "parley/actors/verify", "parley/cluster", "parley/persistence", "parley/persistence/replicatest", "parley/persistence/crashtest", "parley/persistence/disk", "parley/persistence/journaltest", "parley/persistence/keyring", "parley/persistence/layout", "parley/persistence/seal", "parley/persistence/seal/sealtest", "parley/persistence/sealed", "parley/persistence/verify"},
		why:   "actors run the rules and see journals through the contract only",
	},
	"parley/actors/actorstest": {may: slices.Concat(ground, []string{"parley/actors/encoding"}), why: "it drives the tests of every aggregate, so it depends on none"},
	"parley/persistence": {
		may:   slices.Concat(ground, agreed, []string{"parley/persistence/admission", "parley/persistence/apply", "parley/persistence/disk", "parley/persistence/layout", "parley/persistence/notify", "parley/persistence/rows"}),
		tests: []string{"parley/persistence/backup", "parley/persistence/keyring", "parley/persistence/journaltest", "parley/persistence/crashtest", "parley/persistence/replicatest", "parley/persistence/verify"},
		why:   "a journal stores bytes; only actors know what they mean",
	},
	"parley/persistence/admission": {why: "how many entries are taken depends on their sizes and how long they take, not on what they hold"},
	"parley/persistence/notify":    {may: []string{"parley/client/parley", "parley/journal"}, why: "who waits for a number, or observes, needs no rows"},
	"parley/persistence/rows":      {may: slices.Concat(ground, agreed, []string{"parley/persistence/layout"}), why: "reading rows depends on the instant that is read, not on how they got there"},
	"parley/persistence/disk":      {may: ground, why: "it handles files and commits and does not know what their rows mean"},
	"parley/persistence/keyring": {
		may:   slices.Concat(ground, []string{"parley/persistence/disk"}),
		tests: []string{"parley/persistence/crashtest"},
		why:   "keys lie outside the storage engine, so that they can be destroyed; what they encrypt is not known here",
	},
	"parley/persistence/apply": {
		may:  slices.Concat(ground, agreed, []string{"parley/persistence/layout"}),
		pure: true, tests: []string{"parley/persistence/journaltest"},
		why: "the outcome of an entry depends on the state of its journal alone, so that one node can decide for others",
	},
	"parley/persistence/layout": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence/disk"}),
		why: "the on-disk format of rows is defined once, for writers, readers and verifiers",
	},
	"parley/persistence/verify": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence/disk", "parley/persistence/layout"}),
		why: "it verifies rows as they are on disk; the store's own tests use it as an oracle",
	},
	"parley/persistence/backup": {
		may: slices.Concat(ground, []string{"parley/persistence/disk", "parley/persistence/keyring", "parley/persistence/layout"}),
		why: "a backup copies the files of a checkpoint; which journals they hold is known to the store",
	},
	"parley/persistence/seal":          {may: ground, why: "it encrypts bytes for their owners and knows neither rows nor where keys are stored"},
	"parley/persistence/seal/sealtest": {may: slices.Concat(ground, []string{"parley/persistence/seal"}), why: "keys for tests need no keyring"},
	"parley/persistence/sealed": {
		may:   slices.Concat(ground, agreed, []string{"parley/persistence", "parley/persistence/disk", "parley/persistence/layout", "parley/persistence/seal"}),
		tests: []string{"parley/persistence/journaltest", "parley/persistence/seal/sealtest"},
		why:   "actors name owners and the store keeps bytes; one layer between them knows keys",
	},
	"parley/persistence/journaltest": {
		may: slices.Concat(ground, agreed, []string{"parley/persistence", "parley/persistence/disk"}),
		why: "the suite that every journal must pass depends on journals only",
	},
	"parley/persistence/replicatest": {may: []string{"parley/client/parley", "parley/persistence"}, why: "an order of batches for tests depends on nothing but what a replica needs"},
	"parley/persistence/crashtest":   {why: "a file system that simulates crashes depends neither on journals nor on actors"},

	// Several nodes.
	"parley/cluster": {
		may:   slices.Concat(ground, []string{"parley/actors/host", "parley/actors/wire", "parley/cluster/consensus", "parley/cluster/identity", "parley/cluster/link", "parley/cluster/raftlog", "parley/journal", "parley/persistence", "parley/persistence/layout"}),
		tests: []string{"parley/cluster/simtest", "parley/persistence/journaltest"},
		why:   "nodes exchange requests, entries and batches as data; what they are about is known to actors and journals",
	},
	"parley/cluster/link": {
		tests: []string{"parley/cluster/identity"},
		why:   "how bytes reach another node does not depend on what they mean, or on who signs certificates",
	},
	"parley/cluster/identity": {
		why: "who a node is does not depend on what it does",
	},
	"parley/cluster/raftlog": {
		may:   slices.Concat(ground, []string{"parley/persistence/disk"}),
		tests: []string{"parley/persistence/crashtest"},
		why:   "the log of a raft group stores entries and does not know what they mean or who else has them",
	},
	"parley/cluster/consensus": {
		may: []string{"parley/cluster/internal/planted"}, tests: []string{"parley/cluster/simtest"},
		why: "the loop replicates bytes; what they mean, and how they reach the disk and other nodes, is behind interfaces",
	},
	"parley/cluster/simtest":          {may: []string{"parley/cluster/consensus", "parley/cluster/internal/planted"}, why: "a simulation of the loop needs neither a real disk nor what is replicated"},
	"parley/cluster/internal/planted": {why: "only the loop and its simulation know which protections a test can take away"},

	// Interfaces.
	"parley/http": {
		may:   slices.Concat(ground, agreed, rules, framework, []string{"parley/actors", "parley/actors/delivery", "parley/actors/directory", "parley/actors/query", "parley/http/a2a", "parley/http/access", "parley/http/agents", "parley/http/directory", "parley/http/docs", "parley/http/egress", "parley/http/export", "parley/http/content", "parley/http/groups", "parley/http/httpserver", "parley/http/internal/planted", "parley/http/messages", "parley/http/mls", "parley/http/orgs", "parley/http/reports", "parley/http/streams", "parley/http/submission", "parley/http/svid", "parley/http/view", "parley/http/webhooks", "parley/http/web"}),
		tests: []string{"parley/actors/actorstest", "parley/actors/query/export", "parley/actors/directory/embed", "parley/actors/projection", "parley/persistence", "parley/persistence/seal/sealtest", "parley/persistence/sealed", "parley/client", "parley/client/deliveries", "parley/http/mls/mlstest", "parley/http/svid/svidtest"},
		why:   "the HTTP server calls actors and never accesses a journal",
	},
	"parley/http/content": {may: slices.Concat(ground, []string{"parley/actors/record", "parley/client/api"}), why: "the stored form of a message is the same for every sender and every reader"},
	"parley/http/access": {
		may: slices.Concat(ground, agreed, rules, framework, []string{"parley/actors", "parley/actors/query", "parley/http/view"}),
		why: "who acts, and what it may know, is the same for every resource",
	},
	"parley/http/export":           {may: slices.Concat(resource, []string{"parley/actors/query", "parley/actors/query/export", "parley/http/content"}), why: resourceWhy},
	"parley/http/webhooks":         {may: slices.Concat(resource, []string{"parley/actors/delivery", "parley/http/a2a", "parley/http/egress"}), why: resourceWhy},
	"parley/http/groups":           {may: slices.Concat(resource, []string{"parley/http/content", "parley/http/mls", "parley/http/submission"}), why: resourceWhy},
	"parley/http/reports":          {may: slices.Concat(resource, []string{"parley/http/submission"}), why: resourceWhy},
	"parley/http/orgs":             {may: slices.Concat(resource, []string{"parley/actors/encoding", "parley/actors/registration"}), why: resourceWhy},
	"parley/http/agents":           {may: slices.Concat(resource, []string{"parley/actors/query", "parley/http/mls", "parley/http/svid"}), why: resourceWhy},
	"parley/http/messages":         {may: slices.Concat(resource, []string{"parley/actors/query", "parley/http/content", "parley/http/httpserver", "parley/http/submission"}), why: resourceWhy},
	"parley/http/streams":          {may: slices.Concat(resource, []string{"parley/actors/query", "parley/http/connlimit", "parley/http/content", "parley/http/internal/planted"}), why: resourceWhy},
	"parley/http/internal/planted": {why: "only streams and their tests know which protections a test can take away"},
	"parley/http/directory":        {may: slices.Concat(resource, []string{"parley/actors/directory", "parley/actors/query", "parley/http/web"}), why: resourceWhy},
	"parley/http/view": {
		may: slices.Concat(ground, agreed, rules, []string{"parley/actors/query", "parley/client/api", "parley/http/auth", "parley/http/content"}),
		why: "what is shown is given to the renderers: they look nothing up and know no request",
	},
	"parley/http/submission": {
		may: slices.Concat(ground, agreed, rules, framework, []string{"parley/actors", "parley/actors/query", "parley/http/access", "parley/http/content", "parley/http/mls"}),
		why: "a message is judged alike through every interface",
	},
	"parley/http/auth":          {may: ground, why: "tokens and proofs are verified without knowing the request they belong to"},
	"parley/http/limit":         {may: ground, why: "a limit counts keys and depends on nothing else"},
	"parley/http/svid":          {may: ground, tests: []string{"parley/http/svid/svidtest"}, why: "a workload identity is verified without knowing what it is proven for"},
	"parley/http/svid/svidtest": {why: "documents for tests are made without the code that verifies them"},
	"parley/http/mls/mlstest":   {why: "structures for tests are made without the code that reads them"},
	"parley/http/mls":           {pure: true, tests: []string{"parley/http/mls/mlstest"}, why: "headers of MLS messages are read without knowing who sent them; actors get what was read as parts of commands"},
	"parley/http/egress":        {may: ground, why: "outgoing requests get a destination and a body, and do not know the reason"},
	"parley/http/rest": {
		may:   slices.Concat(ground, []string{"parley/client/api", "parley/http/buffer", "parley/http/connlimit", "parley/http/limit"}),
		tests: []string{"parley/http", "parley/http/docs"},
		why:   "how an endpoint is declared, bound, refused and described does not depend on what it does",
	},
	"parley/http/httpserver": {
		may:   slices.Concat(ground, []string{"parley/http/buffer", "parley/http/connlimit", "parley/http/docs", "parley/http/limit", "parley/http/overload", "parley/http/rest"}),
		tests: []string{"parley/client/api"},
		why:   "which requests are served, and in which order they are checked, does not depend on what they ask for",
	},
	"parley/http/a2a": {
		may: slices.Concat(ground, agreed, rules, framework, []string{"parley/actors", "parley/actors/delivery", "parley/actors/query", "parley/http/access", "parley/http/content", "parley/http/egress", "parley/http/submission"}),
		why: "the bridge speaks A2A in terms of the service's own objects; http mounts it",
	},
	"parley/http/docs":      {may: []string{"parley/client/parley", "parley/http/rest"}, why: "the documentation page is static files"},
	"parley/http/web":       {may: []string{"parley/client/parley", "parley/client/api"}, why: "a page is made of the values that endpoints answer with, without knowing the request"},
	"parley/http/buffer":    {may: []string{"parley/http/limit"}, why: "memory is pooled and counted, whatever is written to it"},
	"parley/http/connlimit": {may: []string{"parley/client/parley", "parley/http/limit", "parley/http/overload"}, why: "it decides which connections stay open, independently of their requests"},
	"parley/http/overload":  {may: ground, why: "it decides by the load of the processor, independently of the request"},

	// The bench is outside the layers: it uses the client like any program and
	// measures the server as a process.
	"parley/bench": {
		may: []string{"parley/bench/load", "parley/bench/machine", "parley/bench/report", "parley/bench/result", "parley/bench/scenario", "parley/bench/scenario/host", "parley/bench/target"},
		why: "a program that measures the server must not be linked with it",
	},
	"parley/bench/scenario": {
		may: []string{"parley/client", "parley/client/...", "parley/bench/load", "parley/bench/result", "parley/bench/scenario/a2a", "parley/bench/scenario/directory", "parley/bench/scenario/host", "parley/bench/target", "parley/bench/wire"},
		why: "a scenario uses the API only and does not depend on what runs it, or on which machine",
	},
	"parley/bench/scenario/a2a":       {may: []string{"parley/client/...", "parley/bench/load", "parley/bench/result", "parley/bench/scenario/host", "parley/bench/wire"}, why: "a scenario does not depend on other scenarios"},
	"parley/bench/scenario/directory": {may: []string{"parley/bench/cards", "parley/bench/load", "parley/bench/result", "parley/bench/scenario/host", "parley/bench/wire"}, why: "a scenario does not depend on other scenarios"},
	"parley/bench/scenario/host": {
		may: []string{"parley/client", "parley/client/...", "parley/bench/load", "parley/bench/result", "parley/bench/target", "parley/bench/wire"},
		why: "what scenarios share does not depend on any of them",
	},
	"parley/bench/cards":   {why: "generated cards are plain values, the same for a seed"},
	"parley/bench/target":  {may: []string{"parley/client"}, why: "a target is a process whose health is polled"},
	"parley/bench/load":    {may: []string{"parley/bench/result"}, why: "a load generator depends neither on HTTP nor on Parley"},
	"parley/bench/machine": {may: []string{"parley/bench/result"}, why: "it observes the machine, independently of what runs there"},
	"parley/bench/report":  {may: []string{"parley/bench/result"}, why: "a report formats the values it is given and measures nothing"},
	"parley/bench/wire":    {why: "a raw connection must be cheap, so it handles bytes only"},
	"parley/bench/result":  {why: "results are plain values, which are stored and compared later"},

	"parley/bench/cmd/parley-bench": {
		may: []string{"parley/bench", "parley/bench/report", "parley/bench/result", "parley/bench/scenario", "parley/bench/scenario/host", "parley/bench/target"},
		why: "a command line reads flags and calls the bench",
	},

	// Commands.
	"parley/cmd/parley":                          {may: everything, why: "the command connects all packages"},
	"parley/cmd/parley/telemetry":                {may: []string{"parley/client/parley", "parley/actors", "parley/actors/delivery", "parley/cluster", "parley/cluster/link", "parley/http/httpserver", "parley/http/rest", "parley/cmd/parley/program", "parley/http", "parley/http/messages", "parley/http/streams", "parley/http/webhooks", "parley/http/egress", "parley/journal", "parley/persistence"}, tests: []string{"parley/actors/webhook"}, why: "metrics and traces are made of numbers and events that the server hands over; nothing below knows of them"},
	"parley/cmd/parley/operator":                 {may: []string{"parley/client/parley", "parley/cluster/identity", "parley/cmd/parley/membership", "parley/actors/operator", "parley/actors/org", "parley/actors/record", "parley/actors/verify", "parley/cmd/parley/admin", "parley/cmd/parley/datadir", "parley/cmd/parley/program", "parley/actors/webhook", "parley/http", "parley/http/access", "parley/client/api", "parley/client", "parley/journal", "parley/journal/report", "parley/persistence", "parley/persistence/backup", "parley/persistence/keyring", "parley/persistence/sealed", "parley/persistence/verify"}, why: "operator commands call a running server or open a directory at rest; they start no server"},
	"parley/cmd/parley/admin":                    {may: []string{"parley/client/parley", "parley/actors", "parley/actors/operator", "parley/actors/org", "parley/actors/record", "parley/cmd/parley/datadir", "parley/http", "parley/http/access", "parley/client/api", "parley/http/auth", "parley/persistence/backup"}, why: "the operator's calls act on a running server; who listens where is not their business"},
	"parley/cmd/parley/datadir":                  {may: []string{"parley/client/parley", "parley/actors/encoding", "parley/actors/issuer", "parley/actors/rules", "parley/cluster/identity", "parley/http/auth", "parley/journal", "parley/persistence", "parley/persistence/backup", "parley/persistence/disk", "parley/persistence/keyring", "parley/persistence/seal", "parley/persistence/sealed", "parley/cmd/parley/program"}, why: "the files of a data directory are the same with and without a server"},
	"parley/cmd/parley/membership":               {may: []string{"parley/client/parley", "parley/actors", "parley/actors/operator", "parley/actors/host", "parley/cluster", "parley/cluster/consensus", "parley/cluster/identity", "parley/cluster/raftlog", "parley/cmd/parley/admin", "parley/cmd/parley/datadir", "parley/cmd/parley/program", "parley/journal", "parley/journal/report", "parley/persistence", "parley/persistence/disk", "parley/persistence/keyring", "parley/persistence/seal"}, why: "what makes a server a node of a cluster is together, and a server on its own needs none of it"},
	"parley/cmd/parley/demo":                     {may: []string{"parley/client", "parley/client/...", "parley/cmd/parley/program", "parley/cmd/parley/profile"}, why: "the demonstration starts a server as a process and uses it as a client"},
	"parley/cmd/parley/cli":                      {may: []string{"parley/client", "parley/client/...", "parley/http/auth", "parley/cmd/parley/program", "parley/cmd/parley/profile"}, why: "client commands use a server as any client does"},
	"parley/cmd/parley/program":                  {may: []string{"parley/client", "parley/client/..."}, why: "what all commands share knows no command"},
	"parley/cmd/parley/profile":                  {may: []string{"parley/client", "parley/client/...", "parley/cmd/parley/program"}, why: "a profile belongs to a client; it runs on machines that have no server"},
	"parley/cmd/parley/blackbox/api":             {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/directory":       {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/durability":      {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/groups":          {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/keys":            {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/limits":          {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/mls":             {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/nodes":           {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/operator":        {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/orgs":            {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/streams":         {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/webhooks":        {tests: blackboxTests, why: blackboxWhy},
	"parley/cmd/parley/blackbox/kit":             {why: kitWhy},
	"parley/cmd/parley/blackbox/kit/grouptest":   {may: []string{"parley/cmd/parley/blackbox/kit", "parley/http/mls/mlstest"}, why: kitWhy},
	"parley/cmd/parley/blackbox/kit/hooktest":    {may: []string{"parley/cmd/parley/blackbox/kit"}, why: kitWhy},
	"parley/cmd/parley/blackbox/kit/networktest": {may: []string{"parley/cmd/parley/blackbox/kit"}, why: kitWhy},
	"parley/cmd/parley/blackbox/kit/recorded":    {may: []string{"parley/cmd/parley/blackbox/kit", "parley/cmd/parley/history"}, why: kitWhy},
	"parley/cmd/parley/history":                  {why: "a history of answers is checked without knowing the server that gave them"},
	"parley/cmd/parley/judges":                   {tests: []string{"parley/client", "parley/client/..."}, why: "these tests use the binary as a user of the client does"},
	"parley/cmd/parley/machine":                  {why: "what the process may use depends on nothing that it does"},
	"parley/cmd/parley/server":                   {may: []string{"parley/client/parley", "parley/cmd/parley/machine", "parley/actors", "parley/actors/delivery", "parley/actors/directory/embed", "parley/actors/host", "parley/actors/projection", "parley/journal", "parley/cmd/parley/admin", "parley/cmd/parley/datadir", "parley/cmd/parley/membership", "parley/cmd/parley/program", "parley/cmd/parley/telemetry", "parley/http", "parley/http/webhooks", "parley/http/access", "parley/http/auth", "parley/http/connlimit", "parley/http/content", "parley/http/egress", "parley/http/httpserver", "parley/http/limit", "parley/http/overload", "parley/http/rest", "parley/http/svid", "parley/persistence", "parley/persistence/keyring", "parley/persistence/seal", "parley/persistence/sealed"}, tests: []string{"parley/cluster", "parley/cluster/link"}, why: "one place knows in which order a server's parts are opened and closed"},

	"parley/cmd/parley/cli/a2a":        {may: commands, why: "the commands of one subject know no others"},
	"parley/cmd/parley/cli/directory":  {may: commands, why: "the commands of one subject know no others"},
	"parley/cmd/parley/cli/credential": {may: commands, why: "the commands of one subject know no others"},
	"parley/cmd/parley/cli/webhook":    {may: commands, why: "the commands of one subject know no others"},
}

const (
	blackboxWhy = "black-box tests use the binary only and nothing that is inside, and no subject needs another"
	kitWhy      = "fixtures of black-box tests use the binary only, as their tests do"
)

const resourceWhy = "a resource finds who acts, asks actors and renders; it knows no other resource"

const ruleWhy = "rules depend on the base only; to them another aggregate is an id"

// blackboxTests are what all tests of the black box may import.
var blackboxTests = []string{"parley/cmd/parley/blackbox/kit", "parley/cmd/parley/blackbox/kit/...", "parley/cmd/parley/history", "parley/http/mls/mlstest", "parley/http/svid/svidtest"}

var (
	framework  = []string{"parley/client/api", "parley/http/auth", "parley/http/buffer", "parley/http/connlimit", "parley/http/limit", "parley/http/overload", "parley/http/rest"}
	ground     = []string{"parley/client/parley"}
	agreed     = []string{"parley/journal", "parley/journal/report"}
	aggregates = []string{"parley/actors/org", "parley/actors/agent", "parley/actors/conversation", "parley/actors/registration", "parley/actors/issuer", "parley/actors/keylog", "parley/actors/operator", "parley/actors/group", "parley/actors/webhook"}
	rules      = slices.Concat(aggregates, []string{"parley/actors/encoding", "parley/actors/record", "parley/actors/rules"})
	resource   = slices.Concat(ground, agreed, rules, framework, []string{"parley/actors", "parley/http/access", "parley/http/view"})
	commands   = []string{"parley/client", "parley/client/...", "parley/cmd/parley/program", "parley/cmd/parley/profile"}
	stories    = []string{"parley/actors/actorstest", "parley/actors/encoding"}
	everything = []string{"parley/client/parley", "parley/..."}
)

// bannedStd are the imports that rules packages must not have, with the reason.
var bannedStd = map[string]string{
	"context": "rules take no context: they never wait", "log": "rules do not log", "log/slog": "rules do not log",
	"os": "rules do no I/O", "net": "rules do no I/O", "net/http": "rules do no I/O", "io": "rules do no I/O",
	"sync": "rules hold no lock", "sync/atomic": "rules hold no lock", "unsafe": "rules are plain Go",
	"math/rand": "randomness is passed in", "math/rand/v2": "randomness is passed in", "crypto/rand": "randomness is passed in",
}

// bannedCalls are the functions, by package, that only commands may use; waitingCalls
// are those that rules and the base package may not use.
var (
	bannedCalls = map[string][]string{
		"time":     {"Now", "Since", "Until"},
		"os":       {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
		"log/slog": {"Default", "SetDefault", "Debug", "Info", "Warn", "Error"},
	}
	waitingCalls = map[string][]string{
		"time": {"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	}
)

// bannedNames are package names that say nothing about the contents.
var bannedNames = []string{"utils", "util", "common", "models", "model", "types", "helpers", "helper", "config", "shared", "misc", "lib", "base", "core"}

func TestLayers(t *testing.T) {
	for _, complaint := range surveyLayers(t, os.DirFS(".")) {
		t.Error(complaint)
	}
}

// TestLayersListsExistingPackages checks that lattice and locks name packages and
// modules that exist.
func TestLayersListsExistingPackages(t *testing.T) {
	for path := range lattice {
		folder := strings.TrimPrefix(strings.TrimPrefix(path, "parley"), "/")
		if found, _ := fs.Glob(os.DirFS("."), strings.TrimPrefix(folder+"/*.go", "/")); len(found) == 0 {
			t.Errorf("%s is in lattice, but there is no such package", path)
		}
	}
	imported := importedModules(t)
	for _, l := range locks {
		if !imported(l.module) {
			t.Errorf("locks has %s, which no product code imports", l.module)
		}
		for _, allowed := range l.packages {
			path := strings.TrimSuffix(allowed, "/...")
			if _, known := lattice[path]; !known {
				t.Errorf("the lock of %s allows %s, which is not in lattice", l.module, allowed)
			}
		}
	}
}

// importedModules returns a function that reports whether product code imports a
// package of a module.
func importedModules(t *testing.T) func(module string) bool {
	t.Helper()
	paths := map[string]bool{}
	for name, file := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, i := range file.Imports {
			paths[strings.Trim(i.Path.Value, "\"")] = true
		}
	}
	return func(module string) bool {
		for path := range paths {
			if path == module || strings.HasPrefix(path, module+"/") {
				return true
			}
		}
		return false
	}
}

func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "testdata" || d.Name() == "peers"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		files[path] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLayersControl adds one violation at a time to a correct tree and expects a
// complaint that names it.
func TestLayersControl(t *testing.T) {
	sound := map[string]string{
		"client/parley/id.go":    "package parley\n\nimport _ \"github.com/google/uuid\"\n",
		"actors/org/org.go":      "package org\n\nimport _ \"parley/client/parley\"\n",
		"bench/load/run.go":      "package load\n\nimport \"time\"\n\nvar _ = time.Now\n",
		"persistence/open.go":    "package persistence\n\nimport _ \"github.com/cockroachdb/pebble/v2/vfs\"\n",
		"cmd/parley/server/s.go": "package server\n\nimport (\n\t\"os\"\n\tparleyhttp \"parley/http\"\n)\n\nvar _, _ = os.Getenv, parleyhttp.X\n",
		"actors/wait.go":         "package actors\n\nimport \"time\"\n\nvar _ = time.NewTimer(1)\n",
		"tools/go.mod":           "module other\n",
		"tools/utils/utils.go":   "package utils\n",
		"testdata/bad/bad.go":    "package utils\n",
		"actors/org/ev.pb.go":    "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage org\n\nimport _ \"sync\"\n",
		"client/client.go":       "package client\n\nimport _ \"parley/client/api\"\n",
	}
	faults := []struct{ file, source, want string }{
		{"client/parley/id.go", "package parley\n\nimport _ \"parley/actors\"\n", "must not import parley/actors"},
		{"client/parley/id.go", "package parley\n\nimport \"time\"\n\nvar _ = time.Now()\n", "time.Now"},
		{"client/parley/id.go", "package parley\n\nimport clock \"time\"\n\nvar now = clock.Now\n", "time.Now"},
		{"actors/bad.go", "package actors\n\nimport _ \"parley/persistence\"\n", "must not import parley/persistence"},
		{"persistence/bad.go", "package persistence\n\nimport _ \"parley/actors\"\n", "must not import parley/actors"},
		{"actors/org/bad.go", "package org\n\nimport _ \"parley/actors/agent\"\n", "must not import parley/actors/agent"},
		{"actors/org/bad.go", "package org\n\nimport _ \"sync\"\n", "rules hold no lock"},
		{"actors/org/bad.go", "package org\n\nfunc f() { go f() }\n", "starts a goroutine"},
		{"actors/org/bad.go", "package org\n\nimport _ \"pgregory.net/rapid\"\n", "is for tests"},
		{"actors/org/bad.go", "package org\n\nimport \"time\"\n\nvar _ = time.After(1)\n", "time.After"},
		{"http/bad.go", "package http\n\nimport \"time\"\n\nvar _ = time.Since\n", "time.Since"},
		{"http/bad.go", "package http\n\nimport \"log/slog\"\n\nfunc f() { slog.Info(\"x\") }\n", "log/slog.Info"},
		{"actors/bad.go", "package actors\n\nimport \"os\"\n\nvar _ = os.Getenv(\"A\")\n", "os.Getenv"},
		{"actors/bad.go", "package actors\n\nimport _ \"github.com/cockroachdb/pebble/v2\"\n", "only the storage layer knows how bytes reach the disk"},
		{"http/bad.go", "package http\n\nimport _ \"github.com/golang-jwt/jwt/v5\"\n", "which tokens are valid"},
		{"client/bad.go", "package client\n\nimport _ \"github.com/golang-jwt/jwt/v5\"\n", "must not link the server"},
		{"client/api/bad.go", "package api\n\nimport _ \"parley/journal\"\n", "must not link the server"},
		{"client/bad.go", "package client\n\nimport _ \"parley/http\"\n", "must not import parley/http"},
		{"cmd/parley/bad.go", "package main\n\nimport _ \"parley/http\"\n", "under the name parleyhttp"},
		{"cmd/parley/bad.go", "package main\n\nimport _ \"example.org/novelty\"\n", "is not in locks"},
		{"bench/load/bad.go", "package load\n\nimport _ \"parley/client\"\n", "depends neither on HTTP nor on Parley"},
		{"bench/load/bad.go", "package load\n\nimport \"os\"\n\nvar _ = os.Getenv\n", "os.Getenv"},
		{"bench/report/bad.go", "package report\n\nimport \"time\"\n\nvar _ = time.Now\n", "time.Now"},
		{"extra/extra.go", "package extra\n", "is not in lattice"},
		{"actors/utils/u.go", "package utils\n", "is not a name"},
		{"http/bad.go", "package http\n\nimport _ \"log\"\n", "log"},
	}
	tree := func(extra ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for name, source := range sound {
			m[name] = &fstest.MapFile{Data: []byte(source)}
		}
		for i := 0; i < len(extra); i += 2 {
			m[extra[i]] = &fstest.MapFile{Data: []byte(extra[i+1])}
		}
		return m
	}
	if complaints := surveyLayers(t, tree()); len(complaints) > 0 {
		t.Fatalf("a correct tree is rejected: %q", complaints)
	}
	for _, fault := range faults {
		complaints := surveyLayers(t, tree(fault.file, fault.source))
		named := slices.ContainsFunc(complaints, func(c string) bool {
			return strings.HasPrefix(c, fault.file) && strings.Contains(c, fault.want)
		})
		if !named {
			t.Errorf("added %q to %s: want a complaint with %q, got %q", fault.source, fault.file, fault.want, complaints)
		}
	}
}
