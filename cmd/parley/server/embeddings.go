package server

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"parley/actors/directory/embed"
	"parley/client/parley"
)

// Embeddings are the settings of the directory's search by meaning. // docs: directory.md
type Embeddings struct {
	Embeddings      string `env:"PARLEY_EMBEDDINGS" default:"embedded" placeholder:"embedded|DIR|URL" help:"What makes the vectors for searches by meaning: embedded, the directory of a static word-vector model, or the address of an OpenAI-compatible endpoint (texts go to URL/embeddings)."`
	EmbeddingsModel string `name:"embeddings-model" env:"PARLEY_EMBEDDINGS_MODEL" placeholder:"NAME" help:"Model to name to the endpoint."`
	EmbeddingsDim   int    `name:"embeddings-dim" env:"PARLEY_EMBEDDINGS_DIM" placeholder:"N" help:"How many numbers a vector of that model has."`
	// The default suits models whose vectors spread over all directions.
	EmbeddingsThreshold float32 `name:"embeddings-threshold" env:"PARLEY_EMBEDDINGS_THRESHOLD" default:"0.3" placeholder:"COSINE" help:"Cosine below which a card has nothing in common with a query."`
	EmbeddingsKeyFile   string  `name:"embeddings-key-file" env:"PARLEY_EMBEDDINGS_KEY_FILE" placeholder:"FILE" help:"File with the endpoint's key, sent as a bearer token."`
}

func (e *Embeddings) remote() bool {
	return strings.HasPrefix(e.Embeddings, "http://") || strings.HasPrefix(e.Embeddings, "https://")
}

func (e *Embeddings) validate() error {
	switch {
	case e.EmbeddingsThreshold < 0 || e.EmbeddingsThreshold >= 1:
		return errors.New("--embeddings-threshold: at least 0 and below 1")
	case e.remote() && (e.EmbeddingsModel == "" || e.EmbeddingsDim == 0):
		return errors.New("--embeddings: an endpoint needs --embeddings-model and --embeddings-dim")
	case !e.remote() && (e.EmbeddingsModel != "" || e.EmbeddingsDim != 0 || e.EmbeddingsKeyFile != ""):
		return errors.New("--embeddings-model, --embeddings-dim and --embeddings-key-file are for an endpoint")
	}
	return nil
}

// open returns the provider of vectors.
func (e *Embeddings) open() (embed.Embedder, error) {
	switch {
	case e.Embeddings == "embedded" || e.Embeddings == "":
		return embed.NewConcepts(), nil
	case !e.remote():
		provider, err := embed.OpenDirectory(os.DirFS(e.Embeddings), e.EmbeddingsThreshold)
		if err != nil {
			return nil, fmt.Errorf("--embeddings: the model in %s cannot be read: %w", e.Embeddings, err)
		}
		return provider, nil
	}
	key := ""
	if e.EmbeddingsKeyFile != "" {
		text, err := os.ReadFile(e.EmbeddingsKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--embeddings-key-file: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	provider, err := embed.NewRemote(embed.RemoteOptions{
		URL: e.Embeddings, Model: e.EmbeddingsModel, Key: key, Dim: e.EmbeddingsDim, Threshold: e.EmbeddingsThreshold, Entropy: parley.RandomEntropy,
	})
	if err != nil {
		return nil, fmt.Errorf("--embeddings: %w", err)
	}
	return provider, nil
}
