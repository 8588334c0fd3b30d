// Package program holds what every command of parley shares: the standard
// streams and how results are printed, exit codes and error output, the name
// under which the user started the program, and the build. It knows no command.
package program
