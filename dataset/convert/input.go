package convert

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// input is what the user asks to convert.
type input struct {
	// paths has one file or folder, or several .npz files.
	paths []string
	// isDir is set if paths is one folder, whose entries are sorted by number.
	isDir   bool
	entries []string
	// members has the names of the arrays in the first .npz file, once npz has read
	// them.
	members map[string]bool
	// names has the names in the root group of an HDF5 file, once hdf5 has read them.
	names *hdf5Names
}

// openInput lists the input.
func openInput(paths []string) (*input, error) {
	in := &input{paths: paths}
	for _, path := range paths[1:] {
		if !isNPZ(path) || !isNPZ(paths[0]) {
			return nil, fmt.Errorf("%s: several inputs must all be .npz files (hint: convert one data set per call)", path)
		}
	}
	st, err := os.Stat(paths[0])
	if err != nil {
		return nil, fmt.Errorf("%w (hint: is the path right?)", err)
	}
	if in.isDir = st.IsDir(); !in.isDir {
		return in, nil
	}
	entries, err := os.ReadDir(paths[0])
	for _, e := range entries {
		in.entries = append(in.entries, e.Name())
	}
	slices.SortFunc(in.entries, natural)
	return in, err
}

// path returns the path of the input, or of a file in its folder.
func (in *input) path(name ...string) string {
	return filepath.Join(append([]string{in.paths[0]}, name...)...)
}

// has reports whether the folder has a file or a folder of this name, which may have
// several parts.
func (in *input) has(name string) bool {
	if !in.isDir {
		return false
	}
	_, err := os.Stat(in.path(filepath.FromSlash(name)))
	return err == nil
}

// any reports whether the input itself or something in its folder matches a pattern.
func (in *input) any(pattern string) bool {
	if ok, _ := filepath.Match(pattern, filepath.Base(in.paths[0])); ok && !in.isDir {
		return true
	}
	return len(in.match(pattern)) > 0
}

// match returns the names in the folder that match a pattern of up to two parts, in
// their natural order.
func (in *input) match(pattern string) []string {
	if !in.isDir {
		return nil
	}
	names, err := fs.Glob(os.DirFS(in.paths[0]), pattern)
	if err != nil { // the pattern is wrong
		panic(err)
	}
	slices.SortFunc(names, natural)
	return names
}

// npz returns the paths of the .npz files of the input, or nil.
func (in *input) npz() []string {
	if !in.isDir && isNPZ(in.paths[0]) {
		return in.paths
	}
	var files []string
	for _, name := range in.entries {
		// Names with a dot are leftovers of the operating system.
		if isNPZ(name) && name[0] != '.' {
			files = append(files, in.path(name))
		}
	}
	return files
}

// member reports whether the first .npz file of the input has an array of this name.
// A file that cannot be read has none: its reader returns the error.
func (in *input) member(name string) bool {
	if files := in.npz(); in.members == nil && files != nil {
		in.members = map[string]bool{}
		if z, err := openArchive(files[0], maxArchive); err == nil {
			z.f.Close()
			for name := range z.members {
				in.members[name] = true
			}
		}
	}
	return in.members[name]
}

func isNPZ(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npz") }

// natural compares names so that numbers in them count as numbers: ep_2 comes before
// ep_10. Names that differ only in leading zeros are compared as texts.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if !digit(x[0]) || !digit(y[0]) {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		var m, n string
		m, x = cutNumber(x)
		n, y = cutNumber(y)
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// cutNumber returns the digits that s begins with, without leading zeros, and the
// rest of s.
func cutNumber(s string) (digits, rest string) {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}
