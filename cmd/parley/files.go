package main

// filesReserved are descriptors that connections leave to the journal's files,
// to the operator's door and to those who are being refused.
const filesReserved = 2000

// connectionsMax is how many connections may be open at once where a process may
// open so many files; 0, the door's own bound, where that is not known. Half of
// a small number stays reserved: the journal must not fail for want of a
// descriptor.
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
