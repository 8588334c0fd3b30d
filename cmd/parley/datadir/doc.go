// Package datadir manages the files of a data directory besides the journal: the master
// key, the admin token, and the signs of a damaged or interrupted directory. It also
// decides where backups may be written. A running server and the commands that work
// without one share it.
package datadir
