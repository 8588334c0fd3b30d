package parley_test

// lock restricts a third-party module to the packages that may import it.
type lock struct {
	module   string
	packages []string
	why      string
}

// locks lists every third-party module that product code may import. TestLayers
// rejects all others.
var locks = []lock{
	{"github.com/asynkron/protoactor-go", []string{"parley/actors/host"}, "only actors have mailboxes; rules and interfaces must not depend on the engine"},
	{"google.golang.org/grpc", []string{"parley/cluster", "parley/cluster/link"}, "only nodes talk to each other over gRPC; everybody else uses HTTP"},
	{"go.etcd.io/raft/v3", []string{"parley/cluster", "parley/cluster/consensus", "parley/cluster/raftlog", "parley/cluster/simtest"}, "only the cluster layer replicates; the rest sees terms, indexes and bytes"},
	{"github.com/cockroachdb/pebble/v2", []string{"parley/cluster/raftlog", "parley/persistence", "parley/persistence/..."}, "only the storage layer knows how bytes reach the disk"},
	{"github.com/cespare/xxhash/v2", []string{"parley/persistence/disk"}, "checksums protect bytes on disk; secrets need a keyed hash"},
	{"github.com/valyala/fasthttp", []string{"parley/http", "parley/http/directory", "parley/http/docs", "parley/http/httpserver", "parley/http/rest", "parley/bench/scenario", "parley/bench/wire"}, "its buffers are reused after a handler returns; only the HTTP layer deals with that"},
	{"github.com/fasthttp/router", []string{"parley/http/httpserver"}, "routes are declared in one table"},
	{"github.com/golang-jwt/jwt/v5", []string{"parley/http/auth"}, "one package decides which tokens are valid"},
	{"github.com/go-jose/go-jose/v4", []string{"parley/http", "parley/http/a2a", "parley/http/auth"}, "signatures of clients are verified before actors see a request; the bridge signs cards"},
	{"github.com/spiffe/go-spiffe/v2", []string{"parley/http/svid"}, "one package decides which workload identities are proven"},
	{"github.com/gowebpki/jcs", []string{"parley/http/a2a"}, "only what is signed needs a canonical form"},
	{"filippo.io/edwards25519", []string{"parley/http", "parley/http/auth"}, "keys are validated where they enter"},
	{"code.dny.dev/ssrf", []string{"parley/http/egress"}, "one package decides which addresses are public"},
	{"golang.org/x/mod", []string{"parley/actors/keylog", "parley/http/agents"}, "one package builds the tree of the key log, another signs its checkpoints"},
	{"golang.org/x/net", []string{"parley/http/egress"}, "one package decides which host a text names"},
	{"golang.org/x/sys", []string{"parley/http/connlimit"}, "one package decides what the kernel may hold of a connection"},
	{"golang.org/x/sync", []string{"parley/actors/projection", "parley/persistence/keyring"}, "parts of one work done at once, and the first error of them"},
	{"github.com/maypok86/otter/v2", []string{"parley/actors/projection", "parley/actors/query", "parley/actors/query/cache", "parley/http/directory", "parley/http/a2a", "parley/http/auth", "parley/http/limit"}, "callers cache; rules and journals do not"},
	{"github.com/go-json-experiment/json", []string{"parley/actors", "parley/client", "parley/client/...", "parley/http", "parley/http/...", "parley/cmd/parley", "parley/cmd/parley/..."}, "rules and journals do not encode JSON"},
	{"github.com/blevesearch/bleve/v2", []string{"parley/actors/directory/words"}, "one package decides what a word is"},
	{"github.com/RoaringBitmap/roaring/v2", []string{"parley/actors/directory"}, "sets of cards are filters of searches"},
	{"golang.org/x/text", []string{"parley/actors/directory/embed"}, "tokenizers of models decompose accents"},
	{"github.com/nats-io/nats.go", []string{"parley/bench/scenario/host"}, "only what a scenario sends to a peer is NATS"},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"parley/bench/load"}, "workers record distributions and return them as plain values"},
	{"github.com/prometheus/procfs", []string{"parley/bench/machine"}, "one package observes the machine"},
	{"google.golang.org/protobuf", []string{"parley/actors", "parley/actors/...", "parley/cluster", "parley/cluster/consensus", "parley/cluster/simtest", "parley/journal", "parley/persistence"}, "events are protobuf; interfaces use JSON"},
	{"github.com/planetscale/vtprotobuf", []string{"parley/actors/conversation", "parley/actors/record"}, "what each message encodes several of has generated code"},
	{"github.com/google/uuid", []string{"parley/client/parley"}, "ids have types; no package above the base handles a bare UUID"},
	{"github.com/alecthomas/kong", []string{"parley/cmd/parley", "parley/cmd/parley/server", "parley/bench/cmd/parley-bench"}, "only commands read flags"},
	{"github.com/knadh/koanf", []string{"parley/cmd/parley/server"}, "only the command reads settings"},
	{"github.com/lmittmann/tint", []string{"parley/cmd/parley/server"}, "the command chooses the format of logs"},
	{"github.com/prometheus/client_golang", []string{"parley/cmd/parley/server", "parley/cmd/parley/telemetry"}, "packages count; the command exposes the counts as metrics"},
	{"github.com/prometheus/common", []string{"parley/cmd/parley/telemetry"}, "it knows in which form a scrape is answered"},
	{"go.opentelemetry.io/otel", []string{"parley/cmd/parley/telemetry"}, "packages report what happened; the command makes spans of it"},
}

// testModules may be imported by tests anywhere and by product code nowhere.
var testModules = []string{
	"pgregory.net/rapid", "github.com/cockroachdb/datadriven", "github.com/google/go-cmp",
	"go.uber.org/goleak", "go.yaml.in/yaml/v3", "github.com/rogpeppe/go-internal", "github.com/anishathalye/porcupine",
	"github.com/google/nftables", "github.com/vishvananda/netlink", "github.com/vishvananda/netns", // the black box alone
	"go.opentelemetry.io/proto/otlp",
}

// public are the packages that other programs import, and publicModules the third-party
// modules that these may import.
var (
	public        = []string{"parley/client", "parley/client/..."}
	publicModules = []string{"github.com/google/uuid", "github.com/go-json-experiment/json"}
)

const publicWhy = "a program that imports the client must not link the server, nor download what only the server needs"
