package machine

const (
	// filesReserved is the number of file descriptors for the journal's files, operators, other
	// nodes, and connections that are being refused.
	filesReserved = 2000
	// filesBeside are those of them that others than the journal may take: 64 connections of operators
	// and 64 that are being refused, on each listener.
	filesBeside = 384
)

// ConnectionsMax returns how many connections may be open at once if the process may have
// that many files open. It returns 0, which means the HTTP server's own bound, if the
// number is not known. Half of a small number stays for the journal, which must not run out of
// descriptors.
func ConnectionsMax(files uint64) int {
	const noMatter = 1 << 20
	switch {
	case files == 0 || files > noMatter:
		return 0
	case files < 2*filesReserved:
		return (int(files) - min(filesBeside, int(files)/2)) / 2
	}
	return int(files - filesReserved)
}

// StoreFilesMax returns how many tables the store may have open if the process may have that many
// files open: half of those that are for the journal, so that the other half is left for new
// files; 0 if the number is not known.
func StoreFilesMax(files uint64) int {
	connections := ConnectionsMax(files)
	if connections == 0 {
		return 0
	}
	return (int(files) - connections - min(filesBeside, int(files)/2)) / 2
}
