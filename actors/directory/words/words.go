// Package words divides texts into terms, for the index of the directory and for the
// embedded embedding provider, so that both see the same words.
package words

import (
	"bytes"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/char/asciifolding"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/analysis/token/lowercase"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/unicode"
)

// BytesMax is the length of the longest term. The rest of a longer word is ignored.
const BytesMax = 64

// The filters keep no state between calls, so all goroutines share them.
var (
	tokenizer  = unicode.NewUnicodeTokenizer()
	lower      = lowercase.NewLowerCaseFilter()
	possessive = en.NewPossessiveFilter()
	folding    = asciifolding.New()
	stemmer    = en.NewEnglishStemmerFilter()
	stopWords  = mustStopWords()
)

func mustStopWords() analysis.TokenMap {
	words := analysis.NewTokenMap()
	if err := words.LoadBytes(en.EnglishStopWords); err != nil {
		panic(err) // the list is a constant of the library
	}
	for _, word := range moreStopWords {
		words.AddToken(word)
	}
	return words
}

// moreStopWords occur in requests and say nothing about what is sought.
var moreStopWords = []string{
	"can", "could", "will", "would", "should", "may", "might", "must", "need", "needs", "want", "wants", "please",
	"someone", "somebody", "something", "anyone", "anything", "help", "me", "my", "us", "our", "you", "your", "get",
	"make", "let", "like", "which", "when", "where", "how", "why", "also", "just", "so", "than", "too", "very", "any", "every",
}

// Append appends the terms of a text, in order, at most limit of them: its words by
// the rules of Unicode (UAX 29), in lower case, without accents and without a final 's.
// A word with dots, colons or underscores counts whole and in its parts: node.js is also
// node and js.
func Append(terms []string, text string, limit int) []string {
	room := limit
	add := func(term []byte) {
		if room > 0 && len(term) > 0 {
			terms = append(terms, string(Cut(term, BytesMax)))
			room--
		}
	}
	// Only the beginning of a text can matter; a word needs at least one byte.
	stream := tokenizer.Tokenize(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")))
	for _, token := range possessive.Filter(lower.Filter(stream)) {
		if room == 0 {
			return terms
		}
		term := token.Term
		if !ascii(term) {
			term = bytes.ToLower(folding.Filter(term))
		}
		add(term)
		if bytes.ContainsAny(term, "._:") {
			for _, part := range bytes.FieldsFunc(term, func(r rune) bool { return r == '.' || r == '_' || r == ':' }) {
				if len(part) < len(term) {
					add(part)
				}
			}
		}
	}
	return terms
}

// Cut returns at most limit bytes of a text, whole characters only.
func Cut(term []byte, limit int) []byte {
	if len(term) <= limit {
		return term
	}
	for limit > 0 && !utf8.RuneStart(term[limit]) {
		limit--
	}
	return term[:limit]
}

func ascii(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Stem returns the stem of an English word, or the word itself if it contains other
// characters than a to z.
func Stem(word string) string {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	if len(word) < 3 {
		return word
	}
	token := &analysis.Token{Term: []byte(word)}
	return string(stemmer.Filter(analysis.TokenStream{token})[0].Term)
}

// IsStop reports whether a term occurs in most texts and says little.
func IsStop(word string) bool { return stopWords[word] }
