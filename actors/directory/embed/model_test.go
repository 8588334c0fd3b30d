package embed

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const bertTokenizer = `{"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":20,
"vocab":{"[UNK]":0,"play":1,"##ing":2,"cafe":3,",":4,"un":5,"##aff":6,"##able":7,"日":8,"the":9}}}`

func TestTokenizer(t *testing.T) {
	w, err := parseTokenizer([]byte(bertTokenizer))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int{
		"playing":                     {1, 2},
		"The Café, PLAYING":           {9, 3, 4, 1, 2},
		"unaffable":                   {5, 6, 7},
		"unaffablezz the":             {9},
		"日日 play":                     {8, 8, 1},
		"the\u200bthe\x00":            nil,
		"play,play":                   {1, 4, 1},
		strings.Repeat("play", 9):     nil,
		"":                            nil,
		"ing ##ing":                   nil,
		"the the the the the the the": {9, 9, 9, 9, 9, 9},
	} {
		if got := w.append(nil, text, 6); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for name, change := range map[string][2]string{
		"unigram":         {`"WordPiece"`, `"Unigram"`},
		"another split":   {`BertPreTokenizer`, `Metaspace`},
		"another casing":  {`BertNormalizer`, `Precompiled`},
		"no vocabulary":   {`"vocab":{`, `"vocab":{},"other":{`},
		"not JSON":        {`{"normalizer"`, `"normalizer"`},
		"vocabulary list": {`"model":{"type":"WordPiece"`, `"model":{"vocab":[["a",1]],"type":"Unigram"`},
	} {
		if _, err := parseTokenizer([]byte(strings.Replace(bertTokenizer, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// safetensors makes a file of tensors.
func safetensors(t testing.TB, tensors map[string]tensor) []byte {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for name, x := range tensors {
		header[name] = map[string]any{"dtype": x.kind, "shape": x.shape, "data_offsets": []int{len(data), len(data) + len(x.data)}}
		data = append(data, x.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
}

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// tenRows returns one row of two numbers for each piece of bertTokenizer.
func tenRows() []float32 {
	var rows []float32
	for i := range 10 {
		rows = append(rows, float32(i), float32(10-i))
	}
	return rows
}

func modelFS(t testing.TB, tensors map[string]tensor) fstest.MapFS {
	return fstest.MapFS{"tokenizer.json": {Data: []byte(bertTokenizer)}, "model.safetensors": {Data: safetensors(t, tensors)}}
}

func near(a, b []float32) bool {
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-3 {
			return false
		}
	}
	return len(a) == len(b)
}

func TestDirectory(t *testing.T) {
	halves := func(bits func(float32) uint16) []byte {
		var b []byte
		for _, v := range tenRows() {
			b = binary.LittleEndian.AppendUint16(b, bits(v))
		}
		return b
	}
	bf16 := halves(func(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) })
	f16 := halves(func(v float32) uint16 {
		if v == 0 {
			return 0
		}
		bits := math.Float32bits(v)
		return uint16(bits>>31<<15) | uint16((bits>>23&255)-112)<<10 | uint16(bits>>13&1023)
	})
	// play is row 1, (1, 9); ##ing is row 2, (2, 8).
	unit := func(x, y float64) []float32 {
		return []float32{float32(x / math.Hypot(x, y)), float32(y / math.Hypot(x, y))}
	}
	for name, c := range map[string]struct {
		tensors map[string]tensor
		want    []float32
	}{
		"F32":  {map[string]tensor{"embeddings": {"F32", []int{10, 2}, floats(tenRows()...)}}, unit(3, 17)},
		"BF16": {map[string]tensor{"embeddings": {"BF16", []int{10, 2}, bf16}}, unit(3, 17)},
		"F16":  {map[string]tensor{"embeddings": {"F16", []int{10, 2}, f16}}, unit(3, 17)},
		"weights": {map[string]tensor{
			"embeddings": {"F32", []int{10, 2}, floats(tenRows()...)},
			"weights":    {"F32", []int{10}, floats(1, 2, 3, 1, 1, 1, 1, 1, 1, 1)},
		}, unit(2+6, 18+24)},
		"mapping": {map[string]tensor{
			"embeddings": {"F32", []int{2, 2}, floats(1, 0, 0, 1)},
			"mapping":    {"I32", []int{10}, floats(0, 0, math.Float32frombits(1), 0, 0, 0, 0, 0, 0, 0)},
		}, unit(1, 1)},
	} {
		d, err := OpenDirectory(modelFS(t, c.tensors), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := d.Embed(t.Context(), []string{"playing", "", "zzz"})
		if err != nil || !near(got[0], c.want) || !near(got[1], []float32{0, 0}) || !near(got[2], got[1]) || d.Dim() != 2 || d.Threshold() == 0 {
			t.Errorf("%s: got %v %v, want %v", name, got, err, c.want)
		}
	}
}

func TestDirectoryRefuses(t *testing.T) {
	good := tensor{"F32", []int{10, 2}, floats(tenRows()...)}
	for name, tensors := range map[string]map[string]tensor{
		"no embeddings":        {"other": good},
		"integers":             {"embeddings": {"I32", []int{10, 2}, good.data}},
		"unknown type":         {"embeddings": {"F8", []int{10, 2}, good.data}},
		"one dimension":        {"embeddings": {"F32", []int{20}, good.data}},
		"too few bytes":        {"embeddings": {"F32", []int{11, 2}, good.data}},
		"negative shape":       {"embeddings": {"F32", []int{-10, -2}, good.data}},
		"overflowing shape":    {"embeddings": {"F32", []int{1 << 40, 1 << 30}, good.data}},
		"too few rows":         {"embeddings": {"F32", []int{5, 4}, good.data}},
		"too few weights":      {"embeddings": good, "weights": {"F32", []int{9}, floats(1, 2, 3, 4, 5, 6, 7, 8, 9)}},
		"mapping outside":      {"embeddings": good, "mapping": {"I32", []int{10}, floats(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}},
		"mapping not integers": {"embeddings": good, "mapping": {"F32", []int{10}, floats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)}},
	} {
		if _, err := OpenDirectory(modelFS(t, tensors), 0); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	whole := safetensors(t, map[string]tensor{"embeddings": good})
	for n := range whole {
		if _, err := OpenDirectory(fstest.MapFS{"tokenizer.json": {Data: []byte(bertTokenizer)}, "model.safetensors": {Data: whole[:n]}}, 0); err == nil {
			t.Fatalf("a file cut after %d bytes is accepted", n)
		}
	}
	if _, err := OpenDirectory(os.DirFS(t.TempDir()), 0); err == nil {
		t.Error("an empty directory is accepted")
	}
}

// The id of a model changes with its files.
func TestDirectoryID(t *testing.T) {
	one, err := OpenDirectory(modelFS(t, map[string]tensor{"embeddings": {"F32", []int{10, 2}, floats(tenRows()...)}}), 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := tenRows()
	rows[3]++
	two, err := OpenDirectory(modelFS(t, map[string]tensor{"embeddings": {"F32", []int{10, 2}, floats(rows...)}}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if one.ID() == two.ID() {
		t.Error("models with different vectors have one id")
	}
}
