// Package directory holds the commands that publish cards and find agents by them.
package directory
