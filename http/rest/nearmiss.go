package rest

import "strings"

// Unknown members are ignored. If a required member is missing at the same time, an
// unknown one may be a misspelling of it: the 422 then names it. Lists refuse unknown
// names in the query, and a PATCH refuses a body of which it knows no member, because the
// caller would take an answer for what it did not ask for.

const (
	// unknownNamesMax is how many unknown members of an object are examined, and
	// unknownNameBytesMax how long one may be to be compared with others.
	unknownNamesMax     = 8
	unknownNameBytesMax = 64
)

// unknownNames are the names of unknown members of one object: how many there are, and
// the first of them.
type unknownNames struct {
	count int
	first []string
}

func (s *unknownNames) add(name string) {
	if s.count++; s.count <= unknownNamesMax {
		s.first = append(s.first, name)
	}
}

// refuse reports each name as one that is not among the accepted ones.
func (s unknownNames) refuse(at *place, accepted []string, faults *SchemaError) {
	for _, name := range s.first {
		hint := unknownNames{first: []string{name}}.hint(accepted...)
		if hint == "" && len(accepted) > 0 {
			hint = "; accepted are " + strings.Join(accepted, ", ")
		}
		faults.add(&place{up: at, name: name}, faultExtra, msgExtra+hint)
	}
}

// hint returns a suggestion to add to a fault about missing members. It is empty if no
// unknown member resembles any of them.
func (s unknownNames) hint(missing ...string) string {
	best, sent, meant := farApart, "", ""
	for _, name := range s.first {
		if len(name) > unknownNameBytesMax {
			continue
		}
		for _, wanted := range missing {
			far := distance(name, wanted)
			if far < best || far == best && best < farApart && len(wanted) < len(meant) {
				best, sent, meant = far, name, wanted
			}
		}
	}
	if best == farApart {
		return ""
	}
	return "; you sent '" + sent + "', did you mean '" + meant + "'?"
}

// hinted adds the names of unknown members to a fault about a missing one, which may
// be misspelled.
func (e *SchemaError) hinted(f FieldError) FieldError {
	if strings.HasSuffix(f.Msg, " is required") {
		f.Msg += e.unknown.hint(e.absent...)
	}
	return f
}

// farApart is the distance of unrelated names.
const farApart = 1 << 10

// distance returns how far a name is from a wanted one: the edits between them, or the
// words of a compound that were left out.
func distance(sent, wanted string) int {
	sent, wanted = strings.ToLower(strings.ReplaceAll(sent, "-", "_")), strings.ToLower(wanted)
	a, b := strings.ReplaceAll(sent, "_", ""), strings.ReplaceAll(wanted, "_", "")
	most := min(2, len(b)/3)
	if edits := edits(a, b); edits <= most {
		return edits
	}
	words := strings.Split(wanted, "_")
	for start := range words {
		for end := start + 1; end <= len(words); end++ {
			if strings.Join(words[start:end], "") == a {
				return most + len(words) - (end - start)
			}
		}
	}
	return farApart
}

// edits counts the insertions, deletions, substitutions and swaps of neighbouring
// characters that turn a into b.
func edits(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, next := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// absentNames returns the members of an object that were not sent.
func (m *members) absentNames(seen *[membersMax]uint8) []string {
	var names []string
	for i := range m.fields {
		if seen[i] == 0 {
			names = append(names, m.fields[i].name)
		}
	}
	return names
}
