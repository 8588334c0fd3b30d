package embed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
)

// Bounds of a model directory.
const (
	tokenizerBytesMax = 64 << 20
	modelBytesMax     = 2 << 30
	headerBytesMax    = 16 << 20
	// piecesMax is how many pieces of a text count, as in the programs that such models
	// are made with.
	piecesMax = 512
	// modelThreshold is the threshold of a model directory, if none is given.
	modelThreshold = 0.3
)

// Directory is a static word-vector model on disk: the vector of a text is the mean of
// the vectors of its pieces. Models of model2vec ("potion") have this form.
type Directory struct {
	id        string
	threshold float32
	pieces    *wordPiece
	rows      *matrix
	mapping   []int32   // number of a piece → row; nil if they are equal
	weights   []float32 // number of a piece → weight; nil if all are 1
}

// OpenDirectory reads a model from the root of a file system. It needs
//
//	tokenizer.json     a tokenizer of Hugging Face with a WordPiece model
//	model.safetensors  the tensor "embeddings" with one row per piece, of type F32, F16 or
//	                   BF16; optionally "weights", one number per piece, and "mapping",
//	                   the row of each piece (I32 or I64)
//
// and keeps the tensor in memory. A threshold of 0 is 0.3. The model's id contains a hash
// of both files.
func OpenDirectory(root fs.FS, threshold float32) (*Directory, error) {
	tokenizer, err := readBounded(root, "tokenizer.json", tokenizerBytesMax)
	if err != nil {
		return nil, err
	}
	content, err := readBounded(root, "model.safetensors", modelBytesMax)
	if err != nil {
		return nil, err
	}
	pieces, err := parseTokenizer(tokenizer)
	if err != nil {
		return nil, err
	}
	tensors, err := parseTensors(content)
	if err != nil {
		return nil, err
	}
	d := &Directory{threshold: threshold, pieces: pieces}
	if threshold == 0 {
		d.threshold = modelThreshold
	}
	if err := d.take(tensors); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(tokenizer))))
	h.Write(tokenizer)
	h.Write(content)
	d.id = fmt.Sprintf("directory %x %d", h.Sum(nil)[:16], d.rows.columns)
	return d, nil
}

func readBounded(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("embed: %s has more than %d bytes", name, limit)
	}
	return content, nil
}

// tensor is an array of a safetensors file.
type tensor struct {
	kind  string
	shape []int
	data  []byte
}

// parseTensors reads the safetensors format: the length of a header as eight bytes, a
// header in JSON, and the data that it describes.
func parseTensors(content []byte) (map[string]tensor, error) {
	bad := func(what string) error { return fmt.Errorf("embed: model.safetensors: %s", what) }
	if len(content) < 8 {
		return nil, bad("no header")
	}
	n := binary.LittleEndian.Uint64(content)
	if n > headerBytesMax || n > uint64(len(content)-8) {
		return nil, bad("the header is longer than the file")
	}
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(content[8:8+n], &header); err != nil {
		return nil, bad(err.Error())
	}
	data := content[8+n:]
	tensors := map[string]tensor{}
	for name, text := range header {
		if name == "__metadata__" {
			continue
		}
		var t struct {
			Kind    string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets []uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, bad(err.Error())
		}
		if len(t.Offsets) != 2 || t.Offsets[0] > t.Offsets[1] || t.Offsets[1] > uint64(len(data)) {
			return nil, bad("tensor " + name + " lies outside the file")
		}
		tensors[name] = tensor{t.Kind, t.Shape, data[t.Offsets[0]:t.Offsets[1]]}
	}
	return tensors, nil
}

// numberBytes is the size of a number, by type.
var numberBytes = map[string]int{"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I32": 4, "I64": 8}

// check reports whether a tensor has a shape and as many bytes as it needs.
func (t tensor) check(name string, dimensions int) error {
	size, known := numberBytes[t.kind]
	if !known || len(t.shape) != dimensions {
		return fmt.Errorf("embed: model.safetensors: tensor %s has type %q and shape %v", name, t.kind, t.shape)
	}
	for _, n := range t.shape {
		if n < 1 || n > modelBytesMax/size {
			return fmt.Errorf("embed: model.safetensors: tensor %s has shape %v", name, t.shape)
		}
		size *= n
	}
	if size != len(t.data) {
		return fmt.Errorf("embed: model.safetensors: tensor %s has %d bytes, its shape needs %d", name, len(t.data), size)
	}
	return nil
}

func (t tensor) float(i int) float32 {
	switch t.kind {
	case "F32":
		return math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	case "F64":
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(t.data[8*i:])))
	case "BF16":
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.data[2*i:])) << 16)
	case "F16":
		return half(binary.LittleEndian.Uint16(t.data[2*i:]))
	case "I32":
		return float32(int32(binary.LittleEndian.Uint32(t.data[4*i:])))
	}
	return float32(int64(binary.LittleEndian.Uint64(t.data[8*i:])))
}

// half converts a 16-bit floating-point number.
func half(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits>>15), uint32(bits>>10&31), uint32(bits&1023)
	switch {
	case exponent == 31:
		return math.Float32frombits(sign<<31 | 0xFF<<23 | fraction<<13)
	case exponent == 0:
		value := float32(fraction) / (1 << 24)
		if sign == 1 {
			return -value
		}
		return value
	}
	return math.Float32frombits(sign<<31 | (exponent+112)<<23 | fraction<<13)
}

// matrix is a tensor of rows, which stay in the form of the file.
type matrix struct {
	tensor
	columns int
}

// take checks the tensors of a model against each other and against the vocabulary.
func (d *Directory) take(tensors map[string]tensor) error {
	t, ok := tensors["embeddings"]
	if !ok {
		return errors.New("embed: model.safetensors: the tensor embeddings is missing")
	}
	if err := t.check("embeddings", 2); err != nil {
		return err
	}
	if t.kind[0] == 'I' || t.shape[1] > dimMax {
		return fmt.Errorf("embed: model.safetensors: tensor embeddings has type %q and shape %v", t.kind, t.shape)
	}
	d.rows = &matrix{t, t.shape[1]}
	pieces := t.shape[0]
	if m, ok := tensors["mapping"]; ok {
		if err := m.check("mapping", 1); err != nil {
			return err
		}
		pieces = m.shape[0]
		d.mapping = make([]int32, pieces)
		for i := range d.mapping {
			row := m.integer(i)
			if row < 0 || row >= int64(t.shape[0]) {
				return errors.New("embed: model.safetensors: the mapping names rows that do not exist")
			}
			d.mapping[i] = int32(row)
		}
	}
	if w, ok := tensors["weights"]; ok {
		if err := w.check("weights", 1); err != nil {
			return err
		}
		if w.shape[0] != pieces {
			return errors.New("embed: model.safetensors: there are not as many weights as pieces")
		}
		d.weights = make([]float32, pieces)
		for i := range d.weights {
			d.weights[i] = w.float(i)
		}
	}
	for piece, id := range d.pieces.vocabulary {
		if id < 0 || id >= pieces {
			return fmt.Errorf("embed: the piece %q has the number %d, but there are %d rows", piece, id, pieces)
		}
	}
	return nil
}

func (t tensor) integer(i int) int64 {
	switch t.kind {
	case "I32":
		return int64(int32(binary.LittleEndian.Uint32(t.data[4*i:])))
	case "I64":
		return int64(binary.LittleEndian.Uint64(t.data[8*i:]))
	}
	return -1
}

// ID implements Embedder.
func (d *Directory) ID() string { return d.id }

// Dim implements Embedder.
func (d *Directory) Dim() int { return d.rows.columns }

// Threshold implements Embedder.
func (d *Directory) Threshold() float32 { return d.threshold }

// Embed implements Embedder. The only error is the context's.
func (d *Directory) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = d.vector(text)
	}
	return vectors, nil
}

// vector returns the mean of the pieces' vectors, with length 1.
func (d *Directory) vector(text string) []float32 {
	v := make([]float32, d.rows.columns)
	for _, id := range d.pieces.append(nil, text, piecesMax) {
		row, weight := id, float32(1)
		if d.mapping != nil {
			row = int(d.mapping[id])
		}
		if d.weights != nil {
			weight = d.weights[id]
		}
		for c := range v {
			v[c] += weight * d.rows.float(row*d.rows.columns+c)
		}
	}
	for _, f := range v {
		if f != f || math.IsInf(float64(f), 0) {
			return make([]float32, len(v))
		}
	}
	scale(v, 1)
	return v
}
