package api

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

// NoticeService names the service.
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
