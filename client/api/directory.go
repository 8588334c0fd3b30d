package api

import "parley/client/parley"

// SearchText is what a search for cards looks for.
type SearchText struct {
	// Q is looked for in name, description, skills and tags of the cards, in this order
	// of weight. Beginnings of words and misspelled words are found too. If it is a whole
	// handle, the agent with that handle comes first.
	Q *string `json:"-" query:"q" maxLength:"500" example:"check invoices"`
	// Query is another name of q, which counts if both are given.
	Query *string `json:"-" query:"query" maxLength:"500"`
	// Semantic finds cards that mean the same in other words.
	Semantic *string `json:"-" query:"semantic" maxLength:"500" example:"somebody who keeps our books"`
}

// Orders of GET /directory/agents.
const (
	SortRelevance = "relevance"
	SortName      = "name"
	SortCreatedAt = "created_at"
)

// FindAgents searches the public cards of active agents: GET /directory/agents. All
// parameters combine; without any, all cards are listed. Blank texts count as absent.
type FindAgents struct {
	SearchText
	// Category may be repeated: the card has any of them.
	Category []string `json:"-" query:"category" maxItems:"100" maxLength:"200"`
	// Tag may be repeated: the skills of the card have all of them.
	Tag []string `json:"-" query:"tag" maxItems:"100" maxLength:"200"`
	// Language may be repeated: the card has any of them. en also finds en-GB.
	Language     []string      `json:"-" query:"language" maxItems:"100" maxLength:"200"`
	Jurisdiction *string       `json:"-" query:"jurisdiction" maxLength:"200"`
	MessageType  *string       `json:"-" query:"message_type" maxLength:"200"`
	OrgID        *parley.OrgID `json:"-" query:"org_id"`
	// Verified: the trust tier of the organization is 1 or more; false finds the others.
	Verified     *bool   `json:"-" query:"verified"`
	PricingModel *string `json:"-" query:"pricing_model" enum:"free,per_request,subscription,negotiated"`
	// Limit is the most rows of the page. A page may have fewer, even none, while
	// has_more is true.
	Limit int `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
	// Cursor is the next_cursor of the previous page. The other parameters, except limit,
	// must be the same.
	Cursor *string `json:"-" query:"cursor"`
	// Sort is the order. relevance is the best card first, or the newest without q and
	// semantic. name is ascending, created_at newest first.
	Sort string `json:"-" query:"sort" default:"relevance" enum:"relevance,name,created_at"`
}

// AgentFacts is what a row of the directory has in common with the detail.
type AgentFacts struct {
	OrgID        parley.OrgID `json:"org_id"`
	Handle       string       `json:"handle"`
	Categories   []string     `json:"categories"`
	Tags         []string     `json:"tags"`
	Languages    []string     `json:"languages"`
	Jurisdiction *string      `json:"jurisdiction"`
	PricingModel *string      `json:"pricing_model" enum:"free,per_request,subscription,negotiated"`
	// MessageTypesAccepted are the types of messages that the agent handles.
	MessageTypesAccepted []string `json:"message_types_accepted"`
	// Verified: the trust tier is 1 or more.
	Verified       bool `json:"verified"`
	TrustTier      int  `json:"trust_tier"`
	HumanOversight bool `json:"human_oversight"`
	A2AEnabled     bool `json:"a2a_enabled"`
	// Score is how well the card matches: 1 for the best, never rising in a list. It is
	// null without q and semantic, and in other orders than relevance.
	Score *float64 `json:"score"`
}

// AgentRow is a search result: what the directory says about an agent.
type AgentRow struct {
	// ID is the agent's id.
	ID parley.AgentID `json:"id"`
	// AgentID is the same as ID.
	AgentID     parley.AgentID `json:"agent_id"`
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	Version     *string        `json:"version"`
	AgentFacts
	Skills []AgentSkill `json:"skills"`
	// CreatedAt is when the card was first published since it was last deleted.
	CreatedAt Time `json:"created_at"`
	// UpdatedAt is when the card was last published.
	UpdatedAt *Time `json:"updated_at"`
}

// AgentPage is a page of a search: the answer of GET /directory/agents.
type AgentPage struct {
	Items []AgentRow `json:"items"`
	// NextCursor leads to the next page. It is opaque and authenticated.
	NextCursor *string `json:"next_cursor"`
	HasMore    bool    `json:"has_more"`
	// SearchMode lists how the cards were searched: text by words, structured by filters,
	// semantic by meaning. It is empty if all are listed. A search by meaning that is not
	// possible at the moment becomes one by words.
	SearchMode []string `json:"search_mode" enum:"text,structured,semantic"`
	// Total is how many cards were found; null if more than the search ranks.
	Total *int `json:"total"`
}

// GetListedAgent gets an agent of the directory: GET /directory/agents/{id}.
type GetListedAgent struct {
	ID parley.AgentID `json:"-" path:"id" required:"true"`
}

// ListedAgent is an agent of the directory, with its card.
type ListedAgent struct {
	Card
	AgentFacts
	// RegisteredAt is when the agent was created.
	RegisteredAt Time `json:"registered_at"`
	// LastActiveAt is when the agent last sent a message, cut to the hour; null if it has
	// sent none.
	LastActiveAt *Time `json:"last_active_at"`
}

// SearchStream searches cards in two phases, as server-sent events: GET
// /directory/agents/stream. The first event has what was found by words, so that there is
// something to show at once. With semantic, the second has what was found by meaning. The
// data of the last event is [DONE].
type SearchStream struct {
	SearchText
	// Limit is the most rows of a phase.
	Limit int `json:"-" query:"limit" default:"20" minimum:"1" maximum:"100"`
}

// Phases of a search stream.
const (
	PhaseFuzzy    = "fuzzy"
	PhaseSemantic = "semantic"
	// StreamDone is the data of the last event.
	StreamDone = "[DONE]"
)

// SearchPhase is the data of an event of a search stream.
type SearchPhase struct {
	Phase   string     `json:"phase" enum:"fuzzy,semantic"`
	Results []AgentRow `json:"results"`
	// Error says why a search by meaning was not possible. It is absent if it was.
	Error *string `json:"error,omitzero"`
}

// ListCategories lists the categories of public cards: GET /directory/categories.
type ListCategories struct {
	Paging
}

// CategoryCount is a category and how many public cards have it.
type CategoryCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}
