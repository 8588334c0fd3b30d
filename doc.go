// Package parley is the root of the module. It holds no code but tests of the whole
// tree. Programs that use a server import parley/client; docs/architecture.md describes
// the packages.
package parley
