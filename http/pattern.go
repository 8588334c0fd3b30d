package http

import (
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// matcher judges a text against a pattern of a tag.
type matcher interface {
	MatchString(text string) bool
}

// compilePattern compiles a pattern of a tag. Patterns that are only a row of
// disjoint ASCII classes between ^ and $, such as the alphabet of a payload,
// become a table scan: the regular expression engine needs milliseconds for
// 128 KiB, the scan some tens of microseconds.
func compilePattern(pattern string) matcher {
	compiled := regexp.MustCompile(pattern)
	if runs, ok := classRuns(pattern); ok {
		return runs
	}
	return compiled
}

// classRun is a class of ASCII characters that repeats min to max times; max < 0 means
// without end.
type classRun struct {
	class    [256]bool
	min, max int
}

type classRunList []classRun

// MatchString consumes each run greedily. Neighbouring classes are disjoint,
// so that what a run leaves over the next one could not have given back.
func (runs classRunList) MatchString(text string) bool {
	at := 0
	for i := range runs {
		r, from, to := &runs[i], at, len(text)
		if r.max >= 0 {
			to = min(to, from+r.max)
		}
		for at < to && r.class[text[at]] {
			at++
		}
		if at-from < r.min {
			return false
		}
	}
	return at == len(text)
}

func classRuns(pattern string) (classRunList, bool) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || tree.Op != syntax.OpConcat || len(tree.Sub) < 3 {
		return nil, false
	}
	first, last := tree.Sub[0], tree.Sub[len(tree.Sub)-1]
	if first.Op != syntax.OpBeginText || last.Op != syntax.OpEndText {
		return nil, false
	}
	var runs classRunList
	for _, part := range tree.Sub[1 : len(tree.Sub)-1] {
		r, ok := classRunOf(part)
		if !ok || len(runs) > 0 && overlaps(&runs[len(runs)-1], &r) {
			return nil, false
		}
		runs = append(runs, r)
	}
	return runs, true
}

// overlaps also covers runs that may be empty: every run but the last has to
// be there, or classes two apart would have to be compared as well.
func overlaps(a, b *classRun) bool {
	if a.min == 0 {
		return true
	}
	for c := range a.class {
		if a.class[c] && b.class[c] {
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
		r.class[set.Rune[0]] = true
		return true
	case set.Op == syntax.OpCharClass:
		for i := 0; i < len(set.Rune); i += 2 {
			if set.Rune[i+1] >= utf8.RuneSelf {
				return false
			}
			for c := set.Rune[i]; c <= set.Rune[i+1]; c++ {
				r.class[c] = true
			}
		}
		return true
	default:
		return false
	}
}
