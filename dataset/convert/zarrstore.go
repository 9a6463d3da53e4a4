package convert

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"scalewm/dataset/safefile"
)

// zarrStore is the root group of a Zarr hierarchy, in a folder or in a zip archive.
// Names in it cannot leave it: fs.ValidPath allows no "..".
type zarrStore struct {
	fs.FS
	// stored is the size in bytes of everything in it.
	stored int64
	close  func()

	mu sync.Mutex
	// members are the members of an archive that were read at random positions, with
	// cached bytes in all.
	members map[string][]byte
	cached  int
}

// maxZarrChunk bounds a chunk, and the chunks that have the same rows, in bytes.
const maxZarrChunk = 512 << 20

// errZarrDamaged is wrapped by errors about content that does not fit its metadata.
var errZarrDamaged = errors.New("the set is damaged")

// isZarr reports whether an input is a Zarr group or an archive of one, by the names of
// the group's metadata, or a folder of such groups.
func isZarr(in *input) bool {
	if in.isDir {
		return isZarrGroup(in) || in.npz() == nil && in.match("*.zarr*") != nil
	}
	if strings.HasSuffix(in.path(), ".zarr.zip") {
		return true
	}
	f, z, err := openZip(in.path())
	if err != nil {
		return false
	}
	defer f.Close()
	_, ok := zarrRoot(z)
	return ok
}

func isZarrGroup(in *input) bool {
	return in.has(".zgroup") || in.has("zarr.json") || in.has("meta/episode_ends")
}

// openZarrStore opens a folder or an archive.
func openZarrStore(in *input) (*zarrStore, error) {
	if in.isDir && !isZarrGroup(in) {
		return nil, fmt.Errorf("it is a folder of sets (hint: convert one of them, such as %s)", in.path(in.match("*.zarr*")[0]))
	}
	if in.isDir {
		s := &zarrStore{FS: folderFS(in.path()), close: func() {}}
		err := fs.WalkDir(s.FS, ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				var st fs.FileInfo
				if st, err = d.Info(); err == nil {
					s.stored += st.Size()
				}
			}
			return err
		})
		return s, err
	}
	f, z, err := openZip(in.path())
	if err != nil {
		return nil, fmt.Errorf("%w (hint: is the archive complete? copy it again)", err)
	}
	root, ok := zarrRoot(z)
	if !ok {
		root = "."
	}
	// Zarr writes a changed array again under the same name, and the last one counts.
	last := map[string]*zip.File{}
	for _, m := range z.File {
		last[path.Clean(m.Name)] = m
	}
	z.File = slices.Collect(maps.Values(last))
	st, err := f.Stat()
	s := &zarrStore{close: func() { f.Close() }}
	if err == nil {
		s.stored = st.Size()
		s.FS, err = fs.Sub(z, root)
	}
	if err != nil {
		f.Close()
	}
	return s, err
}

// openZip opens an archive and reads its directory.
func openZip(path string) (*os.File, *zip.Reader, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	var z *zip.Reader
	// zip.NewReader would search the end of any file for a directory.
	magic := make([]byte, 2)
	if _, err2 := f.ReadAt(magic, 0); err == nil && (err2 != nil || string(magic) != "PK") {
		err = zip.ErrFormat
	}
	if err == nil {
		z, err = zip.NewReader(f, st.Size())
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, z, nil
}

// zarrRoot returns the folder of an archive that is the root group: the shortest name
// with a group's metadata or with the folder meta/episode_ends.
func zarrRoot(z *zip.Reader) (root string, ok bool) {
	for _, m := range z.File {
		dir, base := path.Split(m.Name)
		found := base == ".zgroup" || base == "zarr.json"
		if d, ends := strings.CutSuffix(dir, "meta/episode_ends/"); ends && (d == "" || strings.HasSuffix(d, "/")) {
			dir, found = d, true
		}
		if dir = path.Clean(dir); found && fs.ValidPath(dir) && (!ok || len(dir) < len(root)) {
			root, ok = dir, true
		}
	}
	return root, ok
}
