package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linksMost is the maximum number of symbolic links in a path.
const linksMost = 40

// resolveTrusted returns the real path of a directory, which need not exist. It
// refuses a path that somebody else could replace or write to: below base, every
// directory must belong to this user or to root, and nobody else may write to it. A
// sticky directory such as /tmp may be part of the path, because nobody can replace our
// files in it, but it cannot be the last component. Symbolic links are followed under
// the same rule, except as the last component.
//
// Components that do not exist are not checked; the caller resolves the path again
// after creating them.
func resolveTrusted(base, path string) (string, error) {
	rest, err := filepath.Rel(base, path)
	if err != nil {
		return "", err
	}
	at, left, links := base, components(rest), 0
	for len(left) > 0 {
		next, last := filepath.Join(at, left[0]), len(left) == 1
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(append([]string{at}, left...)...), nil
		}
		if err == nil {
			err = trusted(next, info, last)
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, left = next, left[1:]
			continue
		}
		if links++; links > linksMost {
			return "", fmt.Errorf("%s: too many symbolic links", path)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = string(filepath.Separator)
		}
		left = append(components(to), left[1:]...)
	}
	return at, nil
}

func components(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == filepath.Separator })
}

// trusted checks one component of a path.
func trusted(path string, info fs.FileInfo, last bool) error {
	mode := info.Mode()
	switch {
	case !ownedByUs(info):
		return fmt.Errorf("%s belongs to another user, who could replace it", path)
	case mode&fs.ModeSymlink != 0 && last:
		return fmt.Errorf("%s is a symbolic link", path)
	case mode&fs.ModeSymlink != 0:
		return nil
	case !mode.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case filesHaveOwners && mode&0o022 != 0 && (last || mode&fs.ModeSticky == 0):
		return fmt.Errorf("others may write into %s (mode %04o): chmod go-w it, or choose a directory that only the server's user can write to", path, mode.Perm())
	}
	return nil
}

// BackupTarget returns the real path of a directory to which a running server may
// write backups: below one of the allowed directories or, if there are none, any that
// only this user and root can write to.
func BackupTarget(to string, allowed []string) (string, error) {
	if len(allowed) == 0 {
		base := filepath.VolumeName(to) + string(filepath.Separator)
		return resolveTrusted(base, filepath.Clean(to))
	}
	for _, dir := range allowed {
		base, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if to = filepath.Clean(to); to == base || strings.HasPrefix(to, strings.TrimSuffix(base, string(filepath.Separator))+string(filepath.Separator)) {
			return belowAllowed(base, to)
		}
	}
	return "", fmt.Errorf("the server may write backups only below %s (--backup-dir)", strings.Join(allowed, ", "))
}

// belowAllowed resolves a target in an allowed directory and rejects a target that a link
// leads out of it.
func belowAllowed(base, to string) (string, error) {
	resolved, err := resolveTrusted(base, to)
	if err != nil {
		return "", err
	}
	if within, err := contains(base, resolved); err != nil || !within {
		return "", errors.Join(fmt.Errorf("%s is outside of %s", to, base), err)
	}
	return resolved, nil
}
