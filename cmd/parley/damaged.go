package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/cmd/parley/program"
	"parley/persistence"
	"parley/persistence/backup"
)

// damagedHelp follows the reason why a data directory is not opened.
var damagedHelp = "  restore the last backup      " + program.Name + " restore --from BACKUP --data NEW-DIRECTORY\n" +
	"  see what is left             " + program.Name + " verify --data DIRECTORY\n" +
	"  give up what is missing      " + program.Name + " serve --accept-loss (where the end of the log is missing)"

// goneHelp follows it where there is nothing left to look at: it names the file
// that says that there was a journal, and without which there is none to miss.
const goneHelp = "  %[2]s is made after the journal, so there was one\n" +
	"  restore the last backup      %[3]s restore --from BACKUP --data NEW-DIRECTORY\n" +
	"  begin anew, with nothing     move %[2]s away; a key of your own is given in " + masterKeyVariable

// advised adds to the refusal of a data directory that is damaged what can be
// done about it. Other errors are left as they are.
func advised(err error, data string) error {
	switch {
	case !errors.Is(err, persistence.ErrDamaged):
		return err
	case journalGone(data):
		return fmt.Errorf("%[1]w\n"+goneHelp, err, filepath.Join(data, masterKeyFile), program.Name)
	}
	return fmt.Errorf("%w\n%s", err, damagedHelp)
}

// checkNoBackup refuses a directory without journals that is a backup, a part of
// one, or what a restore has left that was cut short. A new store begun there would
// pass for the one that was saved.
func checkNoBackup(data string) error {
	if _, err := os.Lstat(filepath.Join(data, "journal")); err == nil {
		return nil
	}
	whole, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if from := backup.At(nil, whole); from != "" {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s is a backup directory or a part of one, not a data directory\n"+
			"  make a data directory of it  %s", data, program.Typed("restore --from "+from+" --data NEW-DIRECTORY"))}
	}
	if backup.RestoreCutShort(nil, data) {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%s holds a part of a backup: a restore into it was cut short\n"+
			"  remove it and restore again  %s", data, program.Typed("restore --from BACKUP --data NEW-DIRECTORY"))}
	}
	return nil
}

// journalOf is where the journal of a data directory lies, of which there must
// be one.
func journalOf(data string) (string, error) {
	dir := filepath.Join(data, "journal")
	if err := checkNoBackup(data); err != nil {
		return "", err
	}
	if journalGone(data) {
		return "", advised(fmt.Errorf("%w: there is no journal in %s, and there was one", persistence.ErrDamaged, dir), data)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", program.ExitError{Code: program.ExitNotFound, Err: fmt.Errorf("%s is not a data directory: %w", data, err)}
	}
	return dir, nil
}

// journalGone reports whether a data directory has a master key and nothing of a
// journal. An attempt to open it may have left a lock, a file system's maker its
// own directory.
func journalGone(data string) bool {
	if _, err := os.Lstat(filepath.Join(data, masterKeyFile)); err != nil {
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
