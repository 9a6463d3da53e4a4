package safefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Walk visits dir and all files and folders below it, sorted by name within each
// folder. Afterwards it visits the targets of symbolic links, under the paths of the
// links: real paths come first, so that the path by which a file is known does not
// depend on which links exist. A folder that is reachable in several ways is visited
// once, which also ends loops of links.
//
// A folder below dir that must not be read is skipped, and unread has a message about
// it. An error of visit or the end of ctx ends the walk.
func Walk(ctx context.Context, dir string, visit func(path string, folder bool) error) (unread []string, err error) {
	// seen has the visited folders by their paths without links.
	seen := map[string]bool{}
	// links are the paths still to be resolved, in the order found. dir is the first,
	// since it may be a link itself.
	links := []string{dir}
	var walk func(path, real string) error
	walk = func(path, real string) error {
		if seen[real] {
			return nil
		}
		seen[real] = true
		if err := visit(path, true); err != nil {
			return err
		}
		entries, err := os.ReadDir(real)
		// A folder of someone else, such as lost+found. dir itself must be readable.
		if errors.Is(err, fs.ErrPermission) && path != dir {
			unread = append(unread, fmt.Sprintf("the folder %s may not be read, and nothing below it is", path))
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			at := filepath.Join(path, e.Name())
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case e.IsDir():
				err = walk(at, filepath.Join(real, e.Name()))
			case e.Type()&fs.ModeSymlink != 0:
				links = append(links, at)
			default:
				err = visit(at, false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for i := 0; i < len(links); i++ {
		at := links[i]
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, syscall.ELOOP):
			err = fmt.Errorf("the link %s leads back to itself (hint: remove it, or let it lead to a folder)", at)
		// A dangling link is visited like a file: whoever opens it gets the error.
		case i > 0 && errors.Is(err, fs.ErrNotExist):
			err = visit(at, false)
		case err == nil && !info.IsDir():
			err = visit(at, false)
		case err == nil:
			var real string
			if real, err = filepath.EvalSymlinks(at); err == nil {
				err = walk(at, real)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return unread, nil
}
