package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEmbeddingsSettings(t *testing.T) {
	empty := t.TempDir()
	key := filepath.Join(empty, "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		e    Embeddings
		// id is the beginning of the provider's id, fault a part of the error.
		id, fault string
	}{
		{"the default", Embeddings{Embeddings: "embedded"}, "parley-concepts", ""},
		{"an endpoint", Embeddings{Embeddings: "http://127.0.0.1:11434/v1", EmbeddingsModel: "m", EmbeddingsDim: 8, EmbeddingsKeyFile: key}, "http://127.0.0.1:11434/v1", ""},
		{"an endpoint without a model", Embeddings{Embeddings: "https://a.example/v1", EmbeddingsDim: 8}, "", "needs --embeddings-model"},
		{"an endpoint with a query", Embeddings{Embeddings: "https://a.example/v1?x", EmbeddingsModel: "m", EmbeddingsDim: 8}, "", "without user, query"},
		{"a key that is not there", Embeddings{Embeddings: "https://a.example/v1", EmbeddingsModel: "m", EmbeddingsDim: 8, EmbeddingsKeyFile: empty + "/none"}, "", "--embeddings-key-file"},
		{"a directory without a model", Embeddings{Embeddings: empty}, "", "cannot be read"},
		{"a model for the default", Embeddings{Embeddings: "embedded", EmbeddingsModel: "m"}, "", "are for an endpoint"},
		{"a threshold of 1", Embeddings{Embeddings: "embedded", EmbeddingsThreshold: 1}, "", "below 1"},
	} {
		err := c.e.validate()
		id := ""
		if err == nil {
			provider, openErr := c.e.open()
			if err = openErr; err == nil {
				id = provider.ID()
			}
		}
		switch {
		case c.fault == "" && (err != nil || !strings.Contains(id, c.id)):
			t.Errorf("%s: provider %q, %v", c.what, id, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: provider %q, %v, want %q", c.what, id, err, c.fault)
		}
	}
}
