package server

// filesReserved is the number of file descriptors for the journal's files, the admin
// listener, and connections that are being rejected.
const filesReserved = 2000

// connectionsMax returns how many connections may be open at once if the process may have
// that many files open. It returns 0, which means the HTTP server's own bound, if the
// number is not known. Half of a small number stays reserved, because the journal must
// not run out of descriptors.
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

// storeFilesMax returns how many tables the store may have open if the process may have that many
// files open: half of those that are not for connections, so that the other half is left for new
// files, the cluster and the operator; 0 if the number is not known.
func storeFilesMax(files uint64) int {
	connections := connectionsMax(files)
	if connections == 0 {
		return 0
	}
	return (int(files) - connections) / 2
}
