package directory

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"time"

	"parley/actors/directory/words"
	"parley/client/parley"
)

// Doc is a published card as the directory knows it. Texts are as in the card; the index
// compares categories, languages, tags, jurisdiction and pricing model trimmed and in
// lower case, and message types as they are.
type Doc struct {
	AgentID     parley.AgentID
	OrgID       parley.OrgID
	Name        string
	Description string
	Skills      []Skill
	Categories  []string
	// Languages are tags such as en or en-GB. A card in en-GB is also found by en.
	Languages    []string
	Jurisdiction string
	PricingModel string
	MessageTypes []string
	Verified     bool
	// Created and Updated are when the card was first published and last changed.
	Created, Updated time.Time
	// Version is the caller's: Versions returns it.
	Version uint64
}

// Skill is a skill of a card, as far as it is searched.
type Skill struct {
	Name, Description string
	Tags              []string
}

// GroupDoc is a public group as the directory knows it.
type GroupDoc struct {
	GroupID          parley.GroupID
	OrgID            parley.OrgID
	Name, Handle     string
	Description      string
	Created, Updated time.Time
}

// How many terms of a field are indexed. Later ones are not found.
var fieldTermsMax = [fieldsMax]int{200, 1500, 4000, 2500}

// embeddedBytesMax is how much of a card's text is embedded.
const embeddedBytesMax = 8000

// EmbeddingText returns the text of a card that its vector is made of: name, description,
// skills and tags, at most 8,000 bytes.
func (d *Doc) EmbeddingText() string {
	var b strings.Builder
	part := func(text string) {
		if text = strings.TrimSpace(text); text != "" && b.Len() < embeddedBytesMax {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	part(d.Name)
	part(d.Description)
	for _, s := range d.Skills {
		part(s.Name)
		part(s.Description)
		part(strings.Join(s.Tags, ", "))
	}
	return strings.ToValidUTF8(string(words.Cut([]byte(b.String()), embeddedBytesMax)), "\uFFFD")
}

// document is what the index stores about a card or group.
type document struct {
	id, owner        parley.AnyID
	key              string // the name in lower case, which the order by name compares
	created, updated int64  // Unix milliseconds
	terms            []occurrence
	lengths          [fieldsMax]uint8
	values           []string // keys of values, distinct
	embedded         uint64   // hash of the text that the vector is made of
	version          uint64   // the caller's
}

// occurrence is a term of a document.
type occurrence struct {
	text string
	f    frequencies
}

func compareOccurrences(a, b occurrence) int { return strings.Compare(a.text, b.text) }

// analyzed returns a card as it is stored.
func (d *Doc) analyzed() *document {
	var names, tags strings.Builder
	for _, s := range d.Skills {
		names.WriteString(s.Name + "\n" + s.Description + "\n")
		tags.WriteString(strings.Join(s.Tags, "\n") + "\n")
	}
	x := &document{
		id: parley.AnyID(d.AgentID), owner: parley.AnyID(d.OrgID), key: strings.ToLower(d.Name),
		created: d.Created.UnixMilli(), updated: d.Updated.UnixMilli(), version: d.Version,
	}
	x.analyze([fieldsMax]string{d.Name, d.Description, names.String(), tags.String()})
	x.embedded = hashOf(d.EmbeddingText())
	x.value(byOrg, string(d.OrgID[:]))
	for _, c := range d.Categories {
		x.value(byCategory, normal(c))
	}
	for _, s := range d.Skills {
		for _, tag := range s.Tags {
			x.value(byTag, normal(tag))
		}
	}
	for _, l := range d.Languages {
		for l = normal(l); l != ""; l = l[:max(0, strings.LastIndexByte(l, '-'))] {
			x.value(byLanguage, l)
		}
	}
	x.value(byJurisdiction, normal(d.Jurisdiction))
	x.value(byPricing, normal(d.PricingModel))
	for _, t := range d.MessageTypes {
		x.value(byMessageType, t)
	}
	if d.Verified {
		x.value(byVerified, "yes")
	}
	slices.Sort(x.values)
	x.values = slices.Compact(x.values)
	return x
}

// analyzed returns a group as it is stored.
func (d *GroupDoc) analyzed() *document {
	x := &document{
		id: parley.AnyID(d.GroupID), owner: parley.AnyID(d.OrgID), key: strings.ToLower(d.Name),
		created: d.Created.UnixMilli(), updated: d.Updated.UnixMilli(),
	}
	x.analyze([fieldsMax]string{d.Name, d.Handle, d.Description})
	return x
}

func (x *document) value(kind facet, text string) {
	if text != "" {
		x.values = append(x.values, valueKey(kind, text))
	}
}

func (x *document) analyze(fields [fieldsMax]string) {
	found := map[string]frequencies{}
	var terms []string
	for field, text := range fields {
		terms = words.Append(terms[:0], text, fieldTermsMax[field])
		for _, t := range terms {
			found[t] = found[t].plus(field)
		}
		x.lengths[field] = lengthByte(len(terms))
	}
	x.terms = make([]occurrence, 0, len(found))
	for text, f := range found {
		x.terms = append(x.terms, occurrence{text, f})
	}
	slices.SortFunc(x.terms, compareOccurrences)
}

// lengthByte stores the length of a field in one byte: exactly up to 63, above with
// four significant bits.
func lengthByte(n int) uint8 {
	if n < 64 {
		return uint8(n)
	}
	shift := bits.Len(uint(n)) - 4
	return uint8(min(255, 64+(shift-3)*8+(n>>shift)-8))
}

// lengthOf returns the length that lengthByte stored.
func lengthOf(b uint8) int {
	if b < 64 {
		return int(b)
	}
	return (int(b-64)%8 + 8) << (int(b-64)/8 + 3)
}

// forward is the list of a stored document's terms: numbers in ascending order as
// differences, each with a byte of frequencies.
type forward []byte

// newForward takes numbers of terms in ascending order, each shifted by eight bits for
// its frequencies.
func newForward(numbered []uint64) forward {
	list := appendForward(make([]byte, 0, 3*len(numbered)), numbered)
	return append(make(forward, 0, len(list)), list...)
}

func appendForward(list []byte, numbered []uint64) []byte {
	last := uint64(0)
	for _, n := range numbered {
		id := n >> 8
		list = append(binary.AppendUvarint(list, id-last), byte(n))
		last = id
	}
	return list
}

func (l forward) each(do func(id uint32, f frequencies)) {
	id := uint32(0)
	for i := 0; i < len(l); {
		delta, n := binary.Uvarint(l[i:])
		id += uint32(delta)
		do(id, frequencies(l[i+n]))
		i += n + 1
	}
}

// hashOf returns the hash of an embedded text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// normal returns a value of a filter as it is compared: trimmed and in lower case.
func normal(text string) string { return strings.ToLower(strings.TrimSpace(text)) }
