package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece divides texts into the pieces of a vocabulary, as BERT does.
type wordPiece struct {
	vocabulary map[string]int
	unknown    int // -1 if the vocabulary has no such piece
	prefix     string
	wordMax    int // characters of a word; a longer word is unknown
	lowercase  bool
	strip      bool // removes accents
	ideographs bool // divides at Chinese characters
}

// parseTokenizer reads a tokenizer.json of Hugging Face. It refuses kinds that it would
// tokenize in another way than they are meant.
func parseTokenizer(content []byte) (*wordPiece, error) {
	var file struct {
		Normalizer *struct {
			Type       string `json:"type"`
			Lowercase  bool   `json:"lowercase"`
			Strip      *bool  `json:"strip_accents"`
			Ideographs bool   `json:"handle_chinese_chars"`
		} `json:"normalizer"`
		PreTokenizer *struct {
			Type string `json:"type"`
		} `json:"pre_tokenizer"`
		Model struct {
			Type    string         `json:"type"`
			Unknown string         `json:"unk_token"`
			Prefix  string         `json:"continuing_subword_prefix"`
			WordMax int            `json:"max_input_chars_per_word"`
			Vocab   map[string]int `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		var other *json.UnmarshalTypeError
		if !errors.As(err, &other) || file.Model.Type == "WordPiece" {
			return nil, fmt.Errorf("embed: tokenizer.json: %w", err)
		}
	}
	m := file.Model
	switch {
	case m.Type != "WordPiece":
		return nil, fmt.Errorf("embed: tokenizer.json: models of type %q are not supported, only WordPiece", m.Type)
	case file.Normalizer != nil && file.Normalizer.Type != "BertNormalizer":
		return nil, fmt.Errorf("embed: tokenizer.json: normalizers of type %q are not supported, only BertNormalizer", file.Normalizer.Type)
	case file.PreTokenizer == nil || file.PreTokenizer.Type != "BertPreTokenizer":
		return nil, errors.New("embed: tokenizer.json: only the pre-tokenizer BertPreTokenizer is supported")
	case len(m.Vocab) == 0 || m.WordMax < 1 || m.WordMax > 1000:
		return nil, errors.New("embed: tokenizer.json: the vocabulary or max_input_chars_per_word is missing")
	}
	w := &wordPiece{vocabulary: m.Vocab, unknown: -1, prefix: m.Prefix, wordMax: m.WordMax}
	if id, ok := m.Vocab[m.Unknown]; ok {
		w.unknown = id
	}
	if n := file.Normalizer; n != nil {
		w.lowercase, w.ideographs, w.strip = n.Lowercase, n.Ideographs, n.Lowercase
		if n.Strip != nil {
			w.strip = *n.Strip
		}
	}
	return w, nil
}

// append appends the numbers of a text's pieces, at most limit, without unknown ones.
func (w *wordPiece) append(ids []int, text string, limit int) []int {
	if w.strip {
		text = norm.NFD.String(text)
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r):
		case w.strip && unicode.Is(unicode.Mn, r):
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case isPunctuation(r), w.ideographs && isIdeograph(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		case w.lowercase:
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	for word := range strings.FieldsSeq(b.String()) {
		if len(ids) >= limit {
			break
		}
		ids = w.appendWord(ids, word)
	}
	return ids[:min(len(ids), limit)]
}

// appendWord appends the longest pieces that a word begins with, one after the other. A
// word that cannot be divided completely is unknown.
func (w *wordPiece) appendWord(ids []int, word string) []int {
	known := len(ids)
	if utf8.RuneCountInString(word) > w.wordMax {
		return ids
	}
	for begin := 0; begin < len(word); {
		end := len(word)
		for ; end > begin; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			piece := word[begin:end]
			if begin > 0 {
				piece = w.prefix + piece
			}
			if id, ok := w.vocabulary[piece]; ok {
				if id != w.unknown {
					ids = append(ids, id)
				}
				break
			}
		}
		if end == begin {
			return ids[:known]
		}
		begin = end
	}
	return ids
}

func isPunctuation(r rune) bool {
	return r >= 33 && r <= 47 || r >= 58 && r <= 64 || r >= 91 && r <= 96 || r >= 123 && r <= 126 || unicode.IsPunct(r)
}

// isIdeograph reports whether BERT treats a character as a word of its own.
func isIdeograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B820 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
