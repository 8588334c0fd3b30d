// Package operator holds the commands of a server's operator: org and key rotate, which
// call a running server; backup, which does either; restore, verify and quarantine, which
// open a directory that no server has open.
package operator
