package web

import (
	"cmp"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// Search is the form of the directory. Fields that are left empty are sent empty, and
// count as absent.
type Search struct {
	// Q is looked for by words and by meaning.
	Q        string   `json:"-" query:"q" maxLength:"500"`
	Category []string `json:"-" query:"category" maxItems:"100" maxLength:"200"`
	// Tag has tags with commas between them: the skills have all of them.
	Tag string `json:"-" query:"tag" maxLength:"500"`
	// Language has languages with commas between them: the card has any of them.
	Language     string        `json:"-" query:"language" maxLength:"200"`
	Jurisdiction string        `json:"-" query:"jurisdiction" maxLength:"200"`
	MessageType  string        `json:"-" query:"message_type" maxLength:"200"`
	PricingModel string        `json:"-" query:"pricing_model" enum:",free,per_request,subscription,negotiated"`
	Verified     string        `json:"-" query:"verified" enum:",true,false"`
	OrgID        *parley.OrgID `json:"-" query:"org_id"`
	Sort         string        `json:"-" query:"sort" default:"relevance" enum:"relevance,name,created_at"`
	Cursor       *string       `json:"-" query:"cursor"`
}

// NamedAgent names an agent in a path.
type NamedAgent struct {
	Handle string `json:"-" path:"handle" required:"true"`
}

// SearchGroups is the form of the directory of groups.
type SearchGroups struct {
	Q      string  `json:"-" query:"q" maxLength:"500"`
	Cursor *string `json:"-" query:"cursor"`
}

// NamedGroup names a group in a path, by its handle without the #.
type NamedGroup struct {
	Handle string `json:"-" path:"handle" required:"true"`
}

// AssetName names a file of the pages in a path.
type AssetName struct {
	File string `json:"-" path:"file" required:"true"`
}

// pageRows is how many agents or groups a page has.
const pageRows = 20

// Find returns the search of the form as the endpoint takes it. Words are looked for by
// their meaning as well.
func (s *Search) Find() *api.FindAgents {
	in := &api.FindAgents{
		Category: s.Category, Tag: separate(s.Tag), Language: separate(s.Language), OrgID: s.OrgID,
		Jurisdiction: orAbsent(s.Jurisdiction), MessageType: orAbsent(s.MessageType), PricingModel: orAbsent(s.PricingModel),
		Limit: pageRows, Cursor: s.Cursor, Sort: s.Sort,
	}
	in.Q = orAbsent(s.Q)
	in.Semantic = in.Q
	if s.Verified != "" {
		in.Verified = new(s.Verified == "true")
	}
	return in
}

// Find returns the search as the endpoint takes it.
func (s *SearchGroups) Find() *api.FindGroups {
	return &api.FindGroups{Query: orAbsent(s.Q), Limit: pageRows, Cursor: s.Cursor}
}

func orAbsent(text string) *string {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return &text
}

// separate returns the words between commas, without blank ones.
func separate(text string) (all []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}

// values returns the fields that are not empty, as they are sent.
func (s *Search) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"q": s.Q, "tag": s.Tag, "language": s.Language, "jurisdiction": s.Jurisdiction, "message_type": s.MessageType,
		"pricing_model": s.PricingModel, "verified": s.Verified,
	} {
		if value = strings.TrimSpace(value); value != "" {
			v.Set(name, value)
		}
	}
	for _, category := range s.Category {
		if category = strings.TrimSpace(category); category != "" {
			v.Add("category", category)
		}
	}
	if s.OrgID != nil {
		v.Set("org_id", s.OrgID.String())
	}
	if s.Sort != "" && s.Sort != api.SortRelevance {
		v.Set("sort", s.Sort)
	}
	return v
}

// filtered reports whether the form says anything.
func (s *Search) filtered() bool { return len(s.values()) > 0 || s.Cursor != nil }

// Chip is a filter that is in use, with the query of the same search without it.
type Chip struct {
	Label   string
	Without template.URL
}

// labels say what the filters are.
var labels = map[string]string{
	"tag": "tag", "language": "language", "jurisdiction": "jurisdiction", "message_type": "takes", "pricing_model": "price", "org_id": "organization",
}

// chips returns the filters in use, in the order of their names.
func (s *Search) chips() (all []Chip) {
	v := s.values()
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if name == "q" || name == "sort" {
			continue
		}
		for i, value := range v[name] {
			rest := maps.Clone(v)
			rest[name] = slices.Delete(slices.Clone(v[name]), i, i+1)
			all = append(all, Chip{chipLabel(name, value), template.URL(rest.Encode())})
		}
	}
	return all
}

func chipLabel(name, value string) string {
	switch name {
	case "verified":
		return map[string]string{"true": "verified", "false": "not verified"}[value]
	case "pricing_model":
		value = pricing(value)
	case "category":
		return line(value)
	}
	return labels[name] + ": " + line(value)
}

// Agents is a page of found agents.
type Agents struct {
	Search     Search
	Categories []api.CategoryCount
	Rows       []Row
	// Modes are how the agents were found, as in api.AgentPage.
	Modes []string
	Total *int
	// Cursor leads to the next page, nil on the last one.
	Cursor *string
}

// Choice is a category that can be chosen.
type Choice struct {
	Name   string
	Count  int
	Chosen bool
}

// choicesMax is how many categories a form offers.
const choicesMax = 16

// Choices returns the most frequent categories, and those that are chosen.
func (p Agents) Choices() (all []Choice) {
	chosen := map[string]bool{}
	for _, category := range p.Search.Category {
		chosen[strings.ToLower(strings.TrimSpace(category))] = true
	}
	for _, category := range p.Categories {
		if len(all) < choicesMax || chosen[category.Name] {
			all = append(all, Choice{category.Name, category.Count, chosen[category.Name]})
		}
		delete(chosen, category.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if name != "" {
			all = append(all, Choice{Name: name, Chosen: true})
		}
	}
	return all
}

// Chips returns the filters in use.
func (p Agents) Chips() []Chip { return p.Search.chips() }

// Next returns the query of the next page, "" on the last one.
func (p Agents) Next() template.URL { return p.query(p.Cursor) }

// First returns the query of the first page.
func (p Agents) First() template.URL { return template.URL(p.Search.values().Encode()) }

func (p Agents) query(cursor *string) template.URL {
	if cursor == nil {
		return ""
	}
	v := p.Search.values()
	v.Set("cursor", *cursor)
	return template.URL(v.Encode())
}

// NextGroups returns the query of the next page of groups, "" if there is none.
func NextGroups(q string, cursor *string) template.URL {
	if cursor == nil {
		return ""
	}
	v := url.Values{"cursor": {*cursor}}
	if q = strings.TrimSpace(q); q != "" {
		v.Set("q", q)
	}
	return template.URL(v.Encode())
}

// Ways says how the agents were found, "" if all are listed or only filtered.
func (p Agents) Ways() string {
	text, meaning := slices.Contains(p.Modes, "text"), slices.Contains(p.Modes, "semantic")
	switch {
	case text && meaning:
		return "by words and by meaning"
	case text:
		return "by words"
	case meaning:
		return "by meaning"
	}
	return ""
}

// Row is an agent in a list.
type Row struct {
	Name, Handle, About string
	Categories          []string
	Price               string
	Verified            bool
}

const (
	// aboutMax is how many characters of a description a list shows.
	aboutMax = 260
	// rowCategories is how many categories a list shows.
	rowCategories = 4
)

// NewRow returns what a list shows of an agent. It keeps nothing else of the card.
func NewRow(of *api.AgentRow) Row {
	r := Row{Name: line(of.Name), Handle: of.Handle, Verified: of.Verified}
	if of.Description != nil {
		r.About = excerpt(*of.Description, aboutMax)
	}
	for _, category := range of.Categories[:min(len(of.Categories), rowCategories)] {
		r.Categories = append(r.Categories, strings.Clone(line(category)))
	}
	if of.PricingModel != nil {
		r.Price = pricing(*of.PricingModel)
	}
	return r
}

// Agent is an agent's page.
type Agent struct {
	api.ListedAgent
	handle parley.Handle
}

func newAgent(of api.ListedAgent) Agent { return Agent{of, agentHandle(of.Handle)} }

// Words are the verification words.
func (a Agent) Words() []string { return strings.Fields(a.Extension.VerificationWords) }

// DID is the agent's decentralized identifier.
func (a Agent) DID() string { return a.handle.DID() }

// Price is the pricing model, "" if the card says none.
func (a Agent) Price() string {
	if x := a.Extension.PricingModel; x != nil {
		return pricing(*x)
	}
	return ""
}

// Schema is where the schema of a message type is.
type Schema struct{ Type, URI string }

// Schemas are the payload schemas, by message type.
func (a Agent) Schemas() (all []Schema) {
	for _, name := range slices.Sorted(maps.Keys(a.Extension.PayloadSchemas)) {
		all = append(all, Schema{name, a.Extension.PayloadSchemas[name]})
	}
	return all
}

// MessageType is the type of the example: the first that the agent accepts.
func (a Agent) MessageType(brand string) string {
	first := ""
	if accepted := a.Extension.MessageTypesAccepted; len(accepted) > 0 {
		first = accepted[0]
	}
	return cmp.Or(first, brand+".v1.dm")
}
