// Package cell stores the results of units of work on disk, one JSON file per unit.
//
// A cell is a pure function of its spec: kind and spec determine the result. Its file
// is named by the hash of both ([ID]) and contains spec, result and a checksum. A
// cell that is present and valid is therefore done, and several features follow from
// that: an interrupted run resumes by computing only missing cells, machines share
// the work by [Shard] or by a common folder, the folders of two machines merge by
// copying, and an audit recomputes any cell and compares bytes.
//
// A [Store] is a folder of cells. Callers name a cell with ID, look for it with
// [Store.Load] or [Store.Has], and write it with [Store.Save]. Times, host and date
// of a computation are not part of the result and go to a separate file
// ([Store.SaveRun]).
//
// The package does not know what the work is. Atomic writes and size limits come from
// package safefile.
package cell

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"scalewm/dataset/safefile"
)

// Store is a folder of cells. Its methods may be called from several goroutines and
// processes at once.
type Store struct {
	Dir string
	// listed has the names of the files that Listed found; nil if names are looked up
	// in the file system.
	listed map[string]bool
	// verified is the set of ids that this store has read and found valid, of a
	// listed store; nil otherwise.
	verified *sync.Map
}

// Listed returns the store as a listing of its folder shows it now; cells that are
// written later do not exist for it. Use it to decide which cells are missing: a
// network file system caches a failed lookup of a name for up to half a minute, so a
// store that looks names up may compute a cell that another machine has long written.
// A listing does not have this delay.
func (s Store) Listed() (Store, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("listing the cells of %s: %w", s.Dir, safefile.Explain(err))
	}
	s.listed, s.verified = make(map[string]bool, len(entries)), new(sync.Map)
	for _, e := range entries {
		s.listed[e.Name()] = true
	}
	return s, nil
}

// ErrTorn is wrapped by errors about a file that is not a complete, valid cell:
// truncated, altered, or something else altogether.
var ErrTorn = errors.New("not a valid cell")

// Has reports whether a listed store has a file with the name of this cell. The file
// is not read.
func (s Store) Has(id string) bool { return s.listed[id+".json"] }

// file is the JSON form of a cell. The fields are in alphabetical order, which is the
// order of keys in canonical JSON.
type file struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Result json.RawMessage `json:"result"`
	SHA256 string          `json:"sha256"`
	Spec   json.RawMessage `json:"spec"`
}

// ID returns the name of the cell of a spec: the first 16 bytes, in hex, of the
// SHA-256 of kind, a newline and the canonical JSON of spec. Canonical JSON has
// sorted keys and no white space, so the order of struct fields does not matter, but
// adding a field that is not omitted when zero changes all ids.
func ID(kind string, spec any) (string, error) {
	c, err := canonical(spec)
	if err != nil {
		return "", fmt.Errorf("naming a cell of kind %s: %w", kind, err)
	}
	return id(kind, c), nil
}

func id(kind string, spec []byte) string {
	sum := sha256.Sum256(append([]byte(kind+"\n"), spec...))
	return hex.EncodeToString(sum[:16])
}

// Path returns the path of a cell's file.
func (s Store) Path(id string) string { return filepath.Join(s.Dir, id+".json") }

// runSuffix is the end of the names of files that SaveRun writes.
const runSuffix = ".run.json"

// Save writes the cell of a spec with its result, atomically. id must be ID(kind,
// spec): the caller has computed it to look for the cell, and a difference means that
// the spec has changed since. Spec and result must be JSON values, so a NaN is an
// error.
func (s Store) Save(id, kind string, spec, result any) error {
	f, err := seal(kind, spec, result)
	if s.Dir == "" {
		err = errors.New("the store has no folder")
	}
	if err == nil && f.ID != id {
		err = fmt.Errorf("the id of its spec is %s", f.ID)
	}
	if err != nil {
		return fmt.Errorf("saving cell %s of kind %s: %w", id, kind, err)
	}
	return writeJSON(s.Path(id), f, safefile.MaxCell)
}

// seal returns the file of a cell, with id and checksum.
func seal(kind string, spec, result any) (file, error) {
	sp, err := canonical(spec)
	if err != nil {
		return file{}, err
	}
	re, err := canonical(result)
	if err != nil {
		return file{}, err
	}
	return file{ID: id(kind, sp), Kind: kind, Spec: sp, Result: re, SHA256: checksum(kind, sp, re)}, nil
}

// checksum covers everything that the id does not and, again, what it does: an
// altered result is detected as well as an altered spec.
func checksum(kind string, spec, result []byte) string {
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(kind), spec, result}, []byte("\n")))
	return hex.EncodeToString(sum[:])
}

// SaveRun writes what describes the computation of a cell and is not part of its
// result: times, host, date. It goes to <id>.run.json, which no comparison reads, so
// that cells of different machines stay equal byte by byte.
func (s Store) SaveRun(id string, run any) error {
	return writeJSON(filepath.Join(s.Dir, id+runSuffix), run, safefile.MaxRecord)
}

// LoadRun reads what SaveRun wrote. The error wraps fs.ErrNotExist if there is
// nothing.
func (s Store) LoadRun(id string, run any) error {
	path := filepath.Join(s.Dir, id+runSuffix)
	b, err := safefile.Read(path, safefile.MaxRecord)
	if err == nil {
		err = json.Unmarshal(b, run)
	}
	if err != nil {
		return fmt.Errorf("reading the measured times %s: %w", path, safefile.Explain(err))
	}
	return nil
}

// writeJSON writes the canonical JSON of v. It returns an error if the file would
// exceed the limit that readers apply.
func writeJSON(path string, v any, limit safefile.Limit) error {
	b, err := canonical(v)
	if err == nil && int64(len(b)) >= int64(limit) {
		err = fmt.Errorf("it would have %.1f MB, and a file of this kind has at most %.0f", float64(len(b))/(1<<20), float64(limit)/(1<<20))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return safefile.Write(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// Load reads cell id into spec and result, which are pointers as for json.Unmarshal,
// or nil to skip them. The error wraps ErrTorn if the file is not a valid cell and
// fs.ErrNotExist if it is missing. A listed store that found a cell valid does not
// read it again when both pointers are nil.
func (s Store) Load(id string, spec, result any) error {
	if s.verified != nil && spec == nil && result == nil {
		if _, ok := s.verified.Load(id); ok {
			return nil
		}
	}
	var f file
	err := error(&fs.PathError{Op: "open", Path: s.Path(id), Err: fs.ErrNotExist})
	if s.listed == nil || s.listed[id+".json"] {
		f, err = read(s.Path(id))
	}
	if err == nil && f.ID != id {
		err = fmt.Errorf("%w: it contains cell %s", ErrTorn, f.ID)
	}
	if err == nil {
		err = f.into(spec, result)
	}
	if err != nil {
		return fmt.Errorf("reading cell %s: %w", s.Path(id), explain(err))
	}
	if s.verified != nil {
		s.verified.Store(id, true)
	}
	return nil
}

// explain adds a hint to an error of reading a cell.
func explain(err error) error {
	if errors.Is(err, ErrTorn) {
		return fmt.Errorf("%w (hint: delete the file and run the same command again; only missing cells are computed)", err)
	}
	return safefile.Explain(err)
}

func (f file) into(spec, result any) error {
	if spec != nil {
		if err := json.Unmarshal(f.Spec, spec); err != nil {
			return fmt.Errorf("its spec: %w", err)
		}
	}
	if result != nil {
		if err := json.Unmarshal(f.Result, result); err != nil {
			return fmt.Errorf("its result: %w", err)
		}
	}
	return nil
}

// read returns the verified content of a cell file. A path that is not a readable
// file counts as a torn cell, like one with wrong content.
func read(path string) (file, error) {
	b, err := safefile.Read(path, safefile.MaxCell)
	if errors.Is(err, safefile.ErrUnfit) {
		err = fmt.Errorf("%w: %w", ErrTorn, safefile.Explain(err))
	}
	if err != nil {
		return file{}, err
	}
	return parse(b)
}

// parse reads and verifies the content of a cell file. A file in the form that Save
// writes is split at its field names without decoding JSON, which is much faster when
// a report reads tens of thousands of cells; the checksum proves that the split was
// right. Any other layout of the same JSON, for instance one that an editor indented,
// is decoded and brought into canonical form first.
func parse(b []byte) (f file, err error) {
	if f, ok := splitCanonical(b); ok && f.verify() == nil {
		return f, nil
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return file{}, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if len(f.Spec) == 0 || len(f.Result) == 0 {
		return file{}, fmt.Errorf("%w: no spec or no result", ErrTorn)
	}
	if f.Spec, err = canonicalJSON(f.Spec); err != nil {
		return file{}, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if f.Result, err = canonicalJSON(f.Result); err != nil {
		return file{}, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	return f, f.verify()
}

// splitCanonical splits a canonical file into its fields without decoding spec and
// result. ok is false if the field names are not where they should be. Since spec and
// result may contain the text of a field name too, the split may be wrong; the caller
// verifies it.
func splitCanonical(b []byte) (f file, ok bool) {
	// between consumes before from the front of b and returns everything up to the
	// last occurrence of after.
	between := func(before, after string) (out []byte) {
		var found bool
		if ok {
			b, found = bytes.CutPrefix(b, []byte(before))
			at := bytes.LastIndex(b, []byte(after))
			if ok = found && at >= 0; ok {
				out, b = b[:at], b[at:]
			}
		}
		return out
	}
	ok = true
	head := between(`{"id":"`, `,"sha256":"`)
	f.SHA256 = string(between(`,"sha256":"`, `","spec":`))
	f.Spec = between(`","spec":`, "}\n")
	id, rest, found := bytes.Cut(head, []byte(`","kind":"`))
	kind, result, also := bytes.Cut(rest, []byte(`","result":`))
	f.ID, f.Kind, f.Result = string(id), string(kind), result
	return f, ok && found && also && string(b) == "}\n"
}

// verify compares id and checksum with the bytes of spec and result, which must be
// canonical.
func (f file) verify() error {
	if f.ID != id(f.Kind, f.Spec) {
		return fmt.Errorf("%w: the hash of its spec is not its id", ErrTorn)
	}
	if f.SHA256 != checksum(f.Kind, f.Spec, f.Result) {
		return fmt.Errorf("%w: its checksum is wrong", ErrTorn)
	}
	return nil
}

// Entry is a valid cell that Each found.
type Entry struct {
	ID, Kind string
	// SHA256 is the checksum of kind, spec and result: equal cells have equal ones.
	SHA256 string
	path   string
	file   file
}

// Path returns the path of the entry's file.
func (e Entry) Path() string { return e.path }

// Into decodes spec and result, as [Store.Load] does.
func (e Entry) Into(spec, result any) error {
	if err := e.file.into(spec, result); err != nil {
		return fmt.Errorf("reading cell %s: %w", e.path, explain(err))
	}
	return nil
}

// Each calls visit for the cells of the store, ordered by id, and reads each file
// once. For a file that cannot be read, visit gets the error, which wraps ErrTorn if
// the file is not a valid cell. An error that visit returns ends the iteration. A
// missing folder has no cells.
func (s Store) Each(ctx context.Context, visit func(Entry, error) error) error {
	return s.EachNew(ctx, map[string]bool{}, visit)
}

// EachNew is Each for the cells whose ids are not in seen; it adds them to seen.
// Repeated calls with the same map visit each cell once, which lets a caller follow a
// folder that other machines write to.
func (s Store) EachNew(ctx context.Context, seen map[string]bool, visit func(Entry, error) error) error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing the cells of %s: %w", s.Dir, safefile.Explain(err))
	}
	for _, d := range entries {
		name, isJSON := strings.CutSuffix(d.Name(), ".json")
		if !isJSON || seen[name] || d.IsDir() || strings.HasSuffix(d.Name(), runSuffix) || strings.HasPrefix(name, ".") {
			continue
		}
		seen[name] = true
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f, err := read(s.Path(name))
		// Another process removed the file after the listing.
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && f.ID != name {
			err = fmt.Errorf("%w: it contains cell %s", ErrTorn, f.ID)
		}
		if err != nil {
			err = fmt.Errorf("reading cell %s: %w", s.Path(name), explain(err))
		}
		if err := visit(Entry{f.ID, f.Kind, f.SHA256, s.Path(name), f}, err); err != nil {
			return err
		}
	}
	return nil
}
