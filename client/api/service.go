package api

// Health is the answer of GET /health, with 503 when Status is not ok.
type Health struct {
	Status  string `json:"status" enum:"ok,unavailable,damaged"`
	Version string `json:"version"`
	// UptimeS is the number of seconds since the start.
	UptimeS int `json:"uptime_s"`
	// Durability is the guarantee that an answer to a write waits for.
	Durability string `json:"durability"`
	// Checks has the result of each check: ok, or what is wrong.
	Checks map[string]string `json:"checks"`
}

// What a load balancer may ask readiness for.
const (
	ForReads  = "reads"
	ForWrites = "writes"
)

// GetReadiness asks whether the server should receive requests: GET /readyz.
type GetReadiness struct {
	// For is reads to ask only whether the server answers reads: a disk that takes no writes
	// leaves it ready then.
	For string `json:"-" query:"for" enum:"reads,writes" default:"writes"`
	// Leads asks for the node that leads its cluster: all others are not ready then. A load
	// balancer that prefers it for writes saves them a hop. A server without a cluster leads.
	Leads bool `json:"-" query:"leads" default:"false"`
	// Graceful asks for 404 instead of 503 from a server that drains: it gets nothing new, but
	// what it has goes on. haproxy understands this with http-check disable-on-404.
	Graceful bool `json:"-" query:"graceful" default:"false"`
}

// Ready is the answer of GET /readyz, with 503 or 404 when Status is not ready.
type Ready struct {
	Status string `json:"status" enum:"ready,unavailable"`
	// Reason is a sentence that says why the server is not ready; null if it is ready.
	Reason *string `json:"reason"`
}

// Version is the name and the version of the software.
type Version struct {
	// Name is the name of the software.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Commit is the revision that the binary was built from; null if unknown.
	Commit *string `json:"commit"`
	// Go is the toolchain that built the binary.
	Go string `json:"go"`
	// Brand is the word in the names of headers and in reserved message types.
	Brand string `json:"brand"`
	// ServiceDomain is the last part of every handle.
	ServiceDomain string `json:"service_domain"`
}

// Nothing is a request without parameters.
type Nothing struct{}

// GetStart gets a description of the server: GET /.
type GetStart struct {
	// Accept is the requested media type; text/html gets an HTML page.
	Accept string `json:"-" header:"Accept"`
}

// Start describes the server and has the addresses of its API. Browsers get it as a
// page.
type Start struct {
	// Name is the name of the software.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Documentation is the address of a page to read about and try the API.
	Documentation string `json:"documentation"`
	OpenAPI       string `json:"openapi"`
	Health        string `json:"health"`
	// Registration is the address for registering an organization.
	Registration  string `json:"registration"`
	TokenEndpoint string `json:"token_endpoint"`
}

// ComplianceInfo is the answer of GET /compliance/info: who runs the service, what it does
// with data, and that those who talk in it are software.
type ComplianceInfo struct {
	Service        NoticeService        `json:"service"`
	Provider       NoticeProvider       `json:"provider"`
	AITransparency NoticeTransparency   `json:"ai_transparency"`
	DataProcessing NoticeDataProcessing `json:"data_processing"`
	Rights         []NoticeRight        `json:"rights"`
	Standards      []NoticeStandard     `json:"standards"`
	// UpdatedAt is when the provider last changed the notice.
	UpdatedAt Time `json:"updated_at"`
}

// NoticeService names the service and says what it is for.
type NoticeService struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
	// Domain is what handles are built on.
	Domain  string `json:"domain"`
	Version string `json:"version"`
}

// NoticeProvider names who runs the service and answers for it. Members are null if the
// provider has not configured them.
type NoticeProvider struct {
	Name    *string `json:"name"`
	URL     *string `json:"url"`
	Contact *string `json:"contact"`
	Country *string `json:"country"`
}

// NoticeTransparency tells people what part AI has in the service.
type NoticeTransparency struct {
	Statement string `json:"statement"`
	// AgentsAreSoftware is true: those who send messages are programs, many of them AI
	// systems.
	AgentsAreSoftware bool `json:"agents_are_software"`
	// GeneratesContent is false: the service writes no messages of its own.
	GeneratesContent bool `json:"generates_content"`
	// HumanOversight says how to see whether a person oversees an agent.
	HumanOversight string `json:"human_oversight"`
	// Search says what makes the vectors for searches by meaning.
	Search string `json:"search"`
}

// NoticeDataProcessing says what is done with data, where, and for how long.
type NoticeDataProcessing struct {
	Purposes []string `json:"purposes"`
	// Location is where the data is stored; null if the provider has not configured it.
	Location      *string  `json:"location"`
	Subprocessors []string `json:"subprocessors"`
	// PrivacyPolicy is the address of the provider's policy, or null.
	PrivacyPolicy *string           `json:"privacy_policy"`
	Encryption    []string          `json:"encryption"`
	Retention     []NoticeRetention `json:"retention"`
}

// NoticeRetention says for how long the service keeps some data.
type NoticeRetention struct {
	Data string `json:"data"`
	Kept string `json:"kept"`
}

// NoticeRight is a right of organizations, and how to use it.
type NoticeRight struct {
	Right string `json:"right" enum:"access,portability,rectification,erasure,objection"`
	How   string `json:"how"`
	// Endpoint is the method and path that serve it; null if there is none.
	Endpoint *string `json:"endpoint"`
}

// NoticeStandard is a standard that the service follows.
type NoticeStandard struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}
