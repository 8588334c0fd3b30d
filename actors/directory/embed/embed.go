package embed

import "context"

// An Embedder makes vectors of texts. All methods may be called concurrently.
type Embedder interface {
	// ID names the provider, its model and everything else that its vectors depend on.
	// Vectors of different ids must not be compared.
	ID() string
	// Dim is how many numbers a vector has.
	Dim() int
	// Threshold is the cosine below which texts have nothing in common.
	Threshold() float32
	// Embed returns one vector per text, in their order. A text without any meaning to
	// the provider has a vector of zeros.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
