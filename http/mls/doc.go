// Package mls reads what a delivery service has to know of MLS messages (RFC 9420): the
// headers of public and private messages, KeyPackages, Welcomes and GroupInfos. It
// decrypts nothing and keeps no state. Of cryptography it has the signatures of a
// KeyPackage by Ed25519 and its reference.
//
// Every function reads the whole of its input and returns an *Error for anything that RFC
// 9420 does not allow: a vector that is longer than what is left, a length that is not in
// its shortest form, bytes after the end. Slices in results share the memory of the input.
package mls
