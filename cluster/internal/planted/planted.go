// Package planted names the protections of the raft loop that a simulation can take
// away, to prove that it notices. Only packages below cluster can import it, and
// layers_test.go allows nothing but the loop and its simulator to do so.
package planted

// Defects says which protections are missing. The zero value is the product.
type Defects struct {
	// NoTermCheck proposes without checking that this node leads in the given term.
	NoTermCheck bool
	// ActsAfterTerm acknowledges what was in flight when the term ended.
	ActsAfterTerm bool
	// CutsEarly lets the leader cut the log without waiting for the other members.
	CutsEarly bool
	// FenceAtApplied answers a fence with the index that the leader has applied.
	FenceAtApplied bool
	// NoLost does not tell that a term is over.
	NoLost bool
}
