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

// Walk visits dir and all files and folders below it, in the order of their names, and then what links
// lead to, under the links' names. A folder that is reached twice is visited once. Below a folder that may not be
// read nothing is visited; unread says so of each. An error of visit ends the walk.
func Walk(ctx context.Context, dir string, visit func(path string, folder bool) error) (unread []string, err error) {
	seen := map[string]bool{} // folders without links in their paths
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
		if errors.Is(err, fs.ErrPermission) && path != dir { // somebody else's, as the lost+found of a disk
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
		case i > 0 && errors.Is(err, fs.ErrNotExist): // whoever wants to read it says so
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
