package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/cluster/identity"
	"parley/cmd/parley/program"
	"parley/persistence"
	"parley/persistence/backup"
)

// damagedHelp follows the reason why a damaged data directory is not opened.
var damagedHelp = "  restore the last backup      " + program.Name + " restore --from BACKUP --data NEW-DIRECTORY\n" +
	"  see what is left             " + program.Name + " verify --data DIRECTORY\n" +
	"  give up what is missing      " + program.Name + " serve --accept-loss (where the end of the log is missing)"

// goneHelp follows the reason if the journal is missing. It names the file that proves
// that there was one; without that file a new journal would begin.
const goneHelp = "  %[2]s is made after the journal, so there was one\n" +
	"  restore the last backup      %[3]s restore --from BACKUP --data NEW-DIRECTORY\n" +
	"  begin anew, with nothing     move %[2]s away; a key of your own is given in " + MasterKeyVariable

// damagedNodeHelp follows the reason why the directory of a node of a cluster is not opened.
var damagedNodeHelp = "  the other nodes have everything: put a new one in its place. On one of them:\n" +
	"  a token for the new node     " + program.Name + " cluster replace NODE --data DIRECTORY\n" +
	"  if no majority is left       " + program.Name + " cluster recover --data DIRECTORY, or restore the last backup"

// Advise adds to the error of a damaged data directory what the operator can do. It
// returns other errors unchanged.
func Advise(err error, data string) error {
	switch {
	case !errors.Is(err, persistence.ErrDamaged):
		return err
	case identity.Exists(data):
		return fmt.Errorf("%w\n%s", err, damagedNodeHelp)
	case journalGone(data):
		return fmt.Errorf("%[1]w\n"+goneHelp, err, filepath.Join(data, MasterKeyFile), program.Name)
	}
	return fmt.Errorf("%w\n%s", err, damagedHelp)
}

// CheckNoBackup rejects a directory that is a backup, a part of one, or an interrupted
// restore. A server must not begin a new store there: it would look like the saved one.
func CheckNoBackup(data string) error {
	if _, err := os.Lstat(filepath.Join(data, "journal")); err == nil {
		return nil
	}
	whole, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if from := backup.At(nil, whole); from != "" {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is a backup directory or a part of one, not a data directory\n"+
			"  restore it                   %s", data, program.Typed("restore --from "+from+" --data NEW-DIRECTORY"))}
	}
	if backup.RestoreCutShort(nil, data) {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s holds a part of a backup: a restore into it was cut short\n"+
			"  remove it and restore again  %s", data, program.Typed("restore --from BACKUP --data NEW-DIRECTORY"))}
	}
	return nil
}

// Journal returns the directory of the journal of a data directory, which must exist.
func Journal(data string) (string, error) {
	dir := filepath.Join(data, "journal")
	if err := CheckNoBackup(data); err != nil {
		return "", err
	}
	if journalGone(data) {
		return "", Advise(fmt.Errorf("%w: %s contains no journal, although it had one", persistence.ErrDamaged, dir), data)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("%s is not a data directory: %w", data, err)}
	}
	return dir, nil
}

// journalGone reports whether a data directory has a master key but no journal. A lock
// left by an attempt to open it does not count as one, nor does lost+found.
func journalGone(data string) bool {
	if _, err := os.Lstat(filepath.Join(data, MasterKeyFile)); err != nil {
		return false
	}
	left, err := os.ReadDir(filepath.Join(data, "journal"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	for _, entry := range left {
		if name := entry.Name(); name != "LOCK" && name != "lost+found" {
			return false
		}
	}
	return true
}
