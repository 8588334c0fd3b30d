// Package embed makes vectors of texts, so that the directory finds cards that share no
// word with a query. An [Embedder] is one of three providers: [NewConcepts], which is
// embedded in the binary; [OpenDirectory], a static word-vector model on disk; and
// [NewRemote], an HTTP endpoint with the interface of OpenAI. docs/directory.md says how
// to choose.
package embed
