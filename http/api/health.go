package api

// Health is the answer of GET /health, with 503 when Status is not ok.
type Health struct {
	Status  string `json:"status" enum:"ok,unavailable,damaged"`
	Version string `json:"version"`
	// UptimeS counts seconds since the start.
	UptimeS int `json:"uptime_s"`
	// Durability is what an answer to a write waits for.
	Durability string `json:"durability"`
	// Checks says of each part that was looked at that it is ok, or what is wrong.
	Checks map[string]string `json:"checks"`
}

// Ready is the answer of GET /readyz, with 503 when Status is not ready.
type Ready struct {
	Status string `json:"status" enum:"ready,unavailable"`
	// Reason is a sentence that says why it is not ready, null if it is.
	Reason *string `json:"reason"`
}

// Version is the answer of GET /version.
type Version struct {
	// Name is the name of the software.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Commit is the revision built from, null if unknown.
	Commit *string `json:"commit"`
	// Go is the toolchain that built the binary.
	Go string `json:"go"`
	// Brand is the word in the names of headers and in reserved message types.
	Brand string `json:"brand"`
	// ServiceDomain is what handles end with.
	ServiceDomain string `json:"service_domain"`
}

// Nothing is a request without parameters.
type Nothing struct{}

// GetStart asks what runs here: GET /.
type GetStart struct {
	// Accept with text/html is answered with a page.
	Accept string `json:"-" header:"Accept"`
}

// Start says what runs here and where its interface is described. Browsers get
// it as a page.
type Start struct {
	// Name is the name of the software.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Documentation is a page to read and try the interface.
	Documentation string `json:"documentation"`
	OpenAPI       string `json:"openapi"`
	Health        string `json:"health"`
	// Registration is where an organization registers.
	Registration  string `json:"registration"`
	TokenEndpoint string `json:"token_endpoint"`
}
