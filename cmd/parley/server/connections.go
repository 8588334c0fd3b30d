package server

// filesReserved is the number of file descriptors for the journal's files, the admin
// listener, and connections that are being refused.
const filesReserved = 2000

// connectionsMax returns how many connections may be open at once if the process may
// have so many files open; 0, the HTTP server's own bound, if that is not known. Half of
// a small number stays reserved: the journal must not run out of descriptors.
func connectionsMax(files uint64) int {
	const noMatter = 1 << 20
	switch {
	case files == 0 || files > noMatter:
		return 0
	case files < 2*filesReserved:
		return int(files / 2)
	}
	return int(files - filesReserved)
}
