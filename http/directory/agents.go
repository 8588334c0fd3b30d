package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	index "parley/actors/directory"
	"parley/actors/query"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

const (
	// meaningWait bounds how long a search waits for the vector of its text.
	meaningWait = 5 * time.Second
	// meaningsMax is how many searches wait for a vector at once.
	meaningsMax = 32
)

// errMeaning rejects the next page of a search by meaning: the first one had a vector.
var errMeaning = parley.ErrOverloaded.ForOne().Saying("Searching by meaning is not possible at the moment. Try again shortly, or search without semantic.")

// agentSearch is a search for cards.
type agentSearch struct {
	index.Query
	// semantic is the text whose meaning is looked for.
	semantic string
	// list is the name under which its cursors are sealed. It has all parameters except
	// limit and cursor.
	list string
}

// trimmed returns a text without surrounding blanks, "" if it is absent.
func trimmed(t *string) string { return strings.TrimSpace(rest.Text(t)) }

// textOf returns the text that a search looks for: q, or query if q is blank.
func textOf(in *api.SearchText) string {
	if q := trimmed(in.Q); q != "" {
		return q
	}
	return trimmed(in.Query)
}

// values returns values of a filter as they are compared, each once, in one order.
func values(given []string) []string {
	all := view.Folded(given)
	slices.Sort(all)
	return all
}

func newAgentSearch(in *api.FindAgents) agentSearch {
	x := agentSearch{semantic: trimmed(in.Semantic), Query: index.Query{
		Text: textOf(&in.SearchText), Categories: values(in.Category), Tags: values(in.Tag), Languages: values(in.Language),
		Jurisdiction: strings.ToLower(trimmed(in.Jurisdiction)), MessageType: trimmed(in.MessageType), Verified: in.Verified,
		PricingModel: rest.Text(in.PricingModel), Limit: in.Limit,
		Sort: map[string]index.Sort{api.SortRelevance: index.ByRelevance, api.SortName: index.ByName, api.SortCreatedAt: index.ByCreated}[in.Sort],
	}}
	if in.OrgID != nil {
		x.Org = *in.OrgID
	}
	verified := "any"
	if in.Verified != nil {
		verified = fmt.Sprint(*in.Verified)
	}
	x.list = fmt.Sprintf("directory agents %q %q %q %q %q %q %q %s %s %q %s", x.Text, x.semantic, x.Categories, x.Tags, x.Languages,
		x.Jurisdiction, x.MessageType, x.Org, verified, x.PricingModel, in.Sort)
	return x
}

// The first byte of a position: whether the list was ranked with a vector, if semantic was
// given.
const (
	positionAsAsked = iota
	positionByWords // the vector was not to be had
)

// resume sets the position of a cursor, and reports whether the pages before were found by
// words instead of by meaning.
func (x *agentSearch) resume(cursors *rest.Cursors, cursor *string) (byWords bool, err error) {
	if cursor == nil {
		return false, nil
	}
	position, err := cursors.Open(x.list, *cursor)
	if err != nil {
		return false, err
	}
	if len(position) < 2 || position[0] > positionByWords {
		return false, parley.ErrInvalidCursor
	}
	x.Position = position[1:]
	return position[0] == positionByWords, nil
}

// addMeaning adds the vector of semantic to a search. If it is not to be had, the words of
// semantic are looked for instead, on all pages of the list: byWords. A list that began
// with a vector cannot go on without.
func (s *Directory) addMeaning(c *rest.Call, x *agentSearch) (byWords bool, err error) {
	x.Vector, x.Threshold, err = s.meaning(c.Context(), c.Account(), c.Draining(), x.semantic, meaningWait)
	if !errors.Is(err, errNoMeaning) {
		return false, err
	}
	if x.Position != nil {
		return false, errMeaning
	}
	return true, nil
}

// prepare returns a search that is ready to be ranked, and whether the words of semantic
// are looked for instead of its meaning.
func (s *Directory) prepare(c *rest.Call, in *api.FindAgents) (x agentSearch, byWords bool, err error) {
	x = newAgentSearch(in)
	byWords, err = x.resume(s.Cursors, in.Cursor)
	if err == nil {
		x.First, err = s.named(c, x.Text, false)
	}
	if err == nil && x.semantic != "" && !byWords {
		byWords, err = s.addMeaning(c, &x)
	}
	if byWords {
		x.addWords()
	}
	return x, byWords, err
}

// addWords looks for the words of semantic too.
func (x *agentSearch) addWords() {
	if x.Text != x.semantic {
		x.Text = strings.TrimSpace(x.Text + " " + x.semantic)
	}
}

// nextCursor returns the cursor of a position.
func (s *Directory) nextCursor(x *agentSearch, position []byte, byWords bool) *string {
	kind := byte(positionAsAsked)
	if byWords {
		kind = positionByWords
	}
	return new(s.Cursors.Seal(x.list, append([]byte{kind}, position...)))
}

// Find returns a page of public cards.
// // spec: Directory and discovery (all public, no auth)
func (s Agents) Find(c *rest.Call, in *api.FindAgents) (rest.Rendered, error) {
	body, err := s.kept.of(c, "", func() ([]byte, bool, error) { return s.renderAgents(c, in) })
	return rest.Rendered{JSON: body}, err
}

// renderAgents renders a page. It is not to be kept if the words of semantic were looked for instead
// of its meaning.
func (s Agents) renderAgents(c *rest.Call, in *api.FindAgents) (body []byte, keep bool, err error) {
	x, byWords, err := s.prepare(c, in)
	if err != nil {
		return nil, false, err
	}
	result, rows, err := s.search(c, x.Query)
	if err != nil {
		return nil, false, err
	}
	size := rest.PageFrame
	for _, row := range rows {
		size += len(row) + len(",")
	}
	if err := c.Reserve(2 * size); err != nil { // for the rows, and for the answer
		return nil, false, err
	}
	page := rowPage{Items: rows, SearchMode: result.Modes, Total: result.Total}
	if page.HasMore = result.Next != nil; page.HasMore {
		page.NextCursor = s.nextCursor(&x, result.Next, byWords)
	}
	body, err = json.Marshal(page)
	return body, !byWords, err
}

// rowPage is an api.AgentPage whose rows are rendered.
type rowPage struct {
	Items      []jsontext.Value `json:"items"`
	NextCursor *string          `json:"next_cursor"`
	HasMore    bool             `json:"has_more"`
	SearchMode []string         `json:"search_mode"`
	Total      *int             `json:"total"`
}

// search finds a page and renders its rows. A page that would be too long ends earlier:
// the search is repeated with as many rows as fit, so that its Next is theirs.
func (s *Directory) search(c *rest.Call, q index.Query) (*index.Result, []jsontext.Value, error) {
	known := map[parley.AnyID]jsontext.Value{}
	for {
		result, err := s.ranked(c, q)
		if err != nil {
			return nil, nil, err
		}
		rows, passed, err := s.render(c.Context(), result, known)
		if err != nil || passed == len(result.Rows) {
			return result, rows, err
		}
		q.Limit = passed
	}
}

// ranked finds a page of cards.
func (s *Directory) ranked(c *rest.Call, q index.Query) (*index.Result, error) {
	return s.placed(c, func() (*index.Result, error) { return s.Index.Agents(q) })
}

// placed runs a search while it has a place, which it leaves before the rows are read: that
// waits for the disk.
func (s *Directory) placed(c *rest.Call, search func() (*index.Result, error)) (*index.Result, error) {
	leave, err := s.queries.Enter(c.Account(), c.Draining())
	if err != nil {
		return nil, err
	}
	if s.queriesLinger {
		context.AfterFunc(c.Context(), leave)
	} else {
		defer leave()
	}
	return search()
}

// render renders the rows of a result that may be shown now, and returns how many of the
// result's rows it has passed: fewer than all if the page would be too long. It keeps
// rendered rows in known, with the score that they have.
func (s *Directory) render(ctx context.Context, r *index.Result, known map[parley.AnyID]jsontext.Value) (rows []jsontext.Value, passed int, err error) {
	rows = []jsontext.Value{}
	size := rest.PageFrame
	for i, found := range r.Rows {
		row, rendered := known[found.ID]
		if !rendered {
			if row, err = s.renderRow(ctx, found, r.Scored); err != nil {
				return nil, 0, err
			}
			known[found.ID] = row
		}
		if row == nil {
			continue
		}
		if size += len(row) + len(","); size > parley.PageBytesMax && len(rows) > 0 {
			return rows, i, nil
		}
		rows = append(rows, row)
	}
	return rows, len(r.Rows), nil
}

// renderRow renders a row, nil if it may not be shown.
func (s *Directory) renderRow(ctx context.Context, found index.Row, scored bool) (jsontext.Value, error) {
	row, err := s.row(ctx, found, scored)
	if row == nil || err != nil {
		return nil, err
	}
	return json.Marshal(row, json.Deterministic(true))
}

// row returns a row, nil if it may not be shown.
func (s *Directory) row(ctx context.Context, found index.Row, scored bool) (*api.AgentRow, error) {
	card, _, err := s.listed(ctx, parley.AgentID(found.ID))
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	facts := view.ListedFields(&card)
	if scored {
		facts.Score = &found.Score
	}
	return &api.AgentRow{
		ID: card.ID, AgentID: card.AgentID, Name: card.Name, Description: card.Description, Version: card.Version, AgentFacts: facts,
		Skills: card.Skills, CreatedAt: card.CreatedAt, UpdatedAt: card.UpdatedAt,
	}, nil
}

// isGone reports whether something that was found is there no more.
func isGone(err error) bool {
	return errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrGone)
}

var errUnlisted = parley.ErrNotFound.Saying("There is no such agent in the directory.")

// listed returns the card of an agent as it is now, and when the agent was created. Only
// an active agent that is not unlisted, whose card is public and whose organization is not
// suspended is in the directory; for any other isGone reports true for the error.
func (s *Directory) listed(ctx context.Context, id parley.AgentID) (api.Card, time.Time, error) {
	a, err := s.Node.Agents.Get(ctx, id)
	if err != nil {
		return api.Card{}, time.Time{}, err
	}
	o, err := s.Node.Orgs.Get(ctx, a.Owner())
	if err != nil {
		return api.Card{}, time.Time{}, err
	}
	if a.Revoked() || a.GetUnlisted() || o.Suspended() {
		return api.Card{}, time.Time{}, errUnlisted
	}
	stored, err := s.Node.Agents.Card(ctx, id)
	if err == nil && !stored.GetIsPublic() {
		err = query.ErrNoCard
	}
	if err != nil {
		return api.Card{}, time.Time{}, err
	}
	card, _, err := s.Agents.Card(ctx, a, stored)
	return card, a.CreatedAt(), err
}

// Get returns an agent of the directory with its card. An agent that is not in
// the directory cannot be told from one that does not exist. One that was erased is gone.
// // spec: Directory and discovery (all public, no auth)
func (s Agents) Get(c *rest.Call, in *api.GetListedAgent) (rest.Rendered, error) {
	shown, err := s.listedAgent(c.Context(), in.ID)
	if err != nil {
		return rest.Rendered{}, unlistedIf(err)
	}
	body, err := json.Marshal(shown, json.Deterministic(true))
	return rest.Rendered{JSON: api.Rebrand(body, api.DefaultBrand, s.Site.Brand)}, err
}

// listedAgent returns an agent of the directory with its card.
func (s *Directory) listedAgent(ctx context.Context, id parley.AgentID) (api.ListedAgent, error) {
	card, created, err := s.listed(ctx, id)
	if err != nil {
		return api.ListedAgent{}, err
	}
	detail := api.ListedAgent{Card: card, AgentFacts: view.ListedFields(&card), RegisteredAt: api.At(created)}
	active, err := s.Node.Agents.LastActive(ctx, id)
	if !active.IsZero() {
		detail.LastActiveAt = new(api.At(active))
	}
	return detail, err
}

// unlistedIf returns one error for every agent that is not in the directory, except one
// that was erased, and other errors unchanged.
func unlistedIf(err error) error {
	if errors.Is(err, journal.ErrErased) {
		return err
	}
	if isGone(err) || errors.Is(err, parley.ErrBadHandle) {
		return errUnlisted
	}
	return err
}

// ListCategories lists the categories of public cards, the most frequent first.
// // spec: Directory and discovery (all public, no auth)
func (s Agents) ListCategories(c *rest.Call, in *api.ListCategories) (rest.Rendered, error) {
	l, err := s.Lists.New(c, in.Paging, "directory categories")
	if err != nil {
		return rest.Rendered{}, err
	}
	all, err := s.Index.Categories()
	for _, category := range all {
		// The keys of a list ascend.
		key := append(binary.BigEndian.AppendUint64(nil, ^uint64(category.Count)), category.Name...)
		if !l.Add(key, api.CategoryCount{Name: category.Name, Count: category.Count}, nil) {
			break
		}
	}
	return l.Answer(err)
}

// errNoMeaning: the vector of a text is not to be had.
var errNoMeaning = errors.New("the provider of vectors has failed")

// meaning returns the vector of a text. The other errors than errNoMeaning reject a caller
// that has another search under way, or the one too many of all callers.
func (s *Directory) meaning(ctx context.Context, account limit.Account, draining <-chan struct{}, text string, wait time.Duration) ([]float32, float32, error) {
	leave, err := s.meanings.Enter(account, draining)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() {
		select {
		case <-draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	vector, threshold, err := s.Index.Meaning(ctx, text)
	if err != nil || len(vector) == 0 {
		return nil, 0, errNoMeaning
	}
	return vector, threshold, nil
}
