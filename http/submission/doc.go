// Package submission turns what a caller sends into what actors decide: it finds sender and
// recipient, verifies signatures, and encodes the content. Every interface that
// takes messages uses it, so that all of them judge alike.
package submission
