package api

// Health is the answer of GET /health, with 503 when Status is not ok.
type Health struct {
	// Status is ok, or a word for what is wrong.
	Status  string `json:"status"`
	Version string `json:"version"`
	// UptimeS counts seconds since the start.
	UptimeS int `json:"uptime_s"`
	// Durability says what an answer to a write rests on: fsync.
	Durability string `json:"durability"`
	// Checks has a word for each part that was looked at: ok, or what is wrong.
	Checks map[string]string `json:"checks"`
}

// Version is the answer of GET /version.
type Version struct {
	// Name is parley.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Commit is the revision built from, null if unknown.
	Commit *string `json:"commit"`
	// Go is the toolchain that built the binary.
	Go string `json:"go"`
	// Brand is the word that stands for svc in headers and message types.
	Brand string `json:"brand"`
	// ServiceDomain is what handles end with.
	ServiceDomain string `json:"service_domain"`
}

// Nothing is a request without parameters.
type Nothing struct{}
