// Package operator holds the commands of a server's operator: org and key rotate, which
// call a running server; backup, which does either; restore, import, verify and quarantine,
// which make or open a directory that no server has open.
package operator
