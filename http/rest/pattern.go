package rest

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// matcher checks a text against a pattern of a tag.
type matcher interface {
	MatchString(text string) bool
}

// compilePattern compiles a pattern of a tag. Some patterns become a table scan: a
// sequence of disjoint ASCII classes between ^ and $, such as the alphabet of a payload,
// optionally followed by a sequence that repeats, such as a message type. For 128 KiB,
// the regular expression engine needs milliseconds, the scan some tens of microseconds. A
// plain text becomes a substring search.
func compilePattern(pattern string) matcher {
	compiled := regexp.MustCompile(pattern)
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return compiled
	}
	if tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 {
		return containing(tree.Rune)
	}
	if scan, ok := newScan(tree); ok {
		return scan
	}
	return compiled
}

// containing is a text that must occur.
type containing string

func (c containing) MatchString(text string) bool { return strings.Contains(text, string(c)) }

// scan is a sequence of runs followed by a group of runs that repeats least to most
// times. most < 0 means without limit.
type scan struct {
	head, group classRunList
	least, most int
}

func (s *scan) MatchString(text string) bool {
	at, ok := s.head.consume(text, 0)
	for n := 0; ok; n++ {
		next, more := at, false
		if len(s.group) > 0 && n != s.most {
			next, more = s.group.consume(text, at)
		}
		if !more {
			return n >= s.least && at == len(text)
		}
		at = next
	}
	return false
}

// newScan compiles a pattern that can be scanned: neighbouring classes are disjoint, and
// a group is only at the end.
func newScan(tree *syntax.Regexp) (*scan, bool) {
	if tree.Op != syntax.OpConcat || len(tree.Sub) < 3 {
		return nil, false
	}
	first, last := tree.Sub[0], tree.Sub[len(tree.Sub)-1]
	if first.Op != syntax.OpBeginText || last.Op != syntax.OpEndText {
		return nil, false
	}
	s, row := &scan{}, tree.Sub[1:len(tree.Sub)-1]
	if tail := row[len(row)-1]; tail.Op == syntax.OpRepeat && tail.Sub[0].Op == syntax.OpCapture && len(row) > 1 {
		inner := tail.Sub[0].Sub[0]
		if inner.Op != syntax.OpConcat {
			return nil, false
		}
		var ok bool
		if s.group, ok = classRuns(inner.Sub); !ok || overlaps(&s.group[len(s.group)-1], &s.group[0]) {
			return nil, false
		}
		s.least, s.most, row = tail.Min, tail.Max, row[:len(row)-1]
	}
	var ok bool
	s.head, ok = classRuns(row)
	if !ok || len(s.group) > 0 && overlaps(&s.head[len(s.head)-1], &s.group[0]) {
		return nil, false
	}
	return s, true
}

// classRun is a class of ASCII characters that repeats min to max times. max < 0 means
// without limit.
type classRun struct {
	class    [256]uint8 // 1 for members of the class
	min, max int
}

type classRunList []classRun

// consume takes each run greedily and returns where the last one ends. Because
// neighbouring classes are disjoint, no backtracking is needed.
func (runs classRunList) consume(text string, at int) (end int, ok bool) {
	for i := range runs {
		r, from, to := &runs[i], at, len(text)
		if r.max >= 0 {
			to = min(to, from+r.max)
		}
		for row := text[at:to]; len(row) >= 8; row = row[8:] { // payloads are long
			if r.class[row[0]]&r.class[row[1]]&r.class[row[2]]&r.class[row[3]]&
				r.class[row[4]]&r.class[row[5]]&r.class[row[6]]&r.class[row[7]] == 0 {
				break
			}
			at += 8
		}
		for at < to && r.class[text[at]] != 0 {
			at++
		}
		if at-from < r.min {
			return at, false
		}
	}
	return at, true
}

func classRuns(parts []*syntax.Regexp) (classRunList, bool) {
	var runs classRunList
	for _, part := range parts {
		r, ok := classRunOf(part)
		if !ok || len(runs) > 0 && overlaps(&runs[len(runs)-1], &r) {
			return nil, false
		}
		runs = append(runs, r)
	}
	return runs, true
}

// overlaps reports whether two neighbouring classes overlap. It also covers runs that may
// be empty: every run but the last must match at least once, or classes two apart would
// have to be compared as well.
func overlaps(a, b *classRun) bool {
	if a.min == 0 {
		return true
	}
	for c := range a.class {
		if a.class[c]&b.class[c] != 0 {
			return true
		}
	}
	return false
}

func classRunOf(part *syntax.Regexp) (classRun, bool) {
	r := classRun{min: 1, max: 1}
	switch part.Op {
	case syntax.OpPlus:
		r.max = -1
	case syntax.OpStar:
		r.min, r.max = 0, -1
	case syntax.OpQuest:
		r.min = 0
	case syntax.OpRepeat:
		r.min, r.max = part.Min, part.Max
	default:
		return r, r.fill(part)
	}
	return r, r.fill(part.Sub[0])
}

func (r *classRun) fill(set *syntax.Regexp) bool {
	switch {
	case set.Flags&syntax.FoldCase != 0:
		return false
	case set.Op == syntax.OpLiteral && len(set.Rune) == 1 && set.Rune[0] < utf8.RuneSelf:
		r.class[set.Rune[0]] = 1
		return true
	case set.Op == syntax.OpCharClass:
		for i := 0; i < len(set.Rune); i += 2 {
			if set.Rune[i+1] >= utf8.RuneSelf {
				return false
			}
			for c := set.Rune[i]; c <= set.Rune[i+1]; c++ {
				r.class[c] = 1
			}
		}
		return true
	default:
		return false
	}
}
