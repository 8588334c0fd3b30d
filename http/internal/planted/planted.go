// Package planted names the protections of streams that a test can take away, to prove that
// it notices. Only packages below http can import it.
package planted

// Streams says which protections are missing. The zero value is the product.
type Streams struct {
	// Alone lets every stream read and render as if it were its agent's only one.
	Alone bool
	// PumpsWait lets the goroutines that write to all streams wait for one reader.
	PumpsWait bool
}
