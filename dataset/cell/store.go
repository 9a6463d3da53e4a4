// Package cell stores units of work on disk. A cell is a pure function of its
// canonical spec: its file is named by the hash of that spec and holds a checksum. A
// cell that is present and valid is done; resuming, sharding and merging follow from
// that.
//
// It does not know what the work is, nor how a file is written safely (package safefile).
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

// Store is a folder of cells.
type Store struct {
	Dir string
	// listed are the names of the files that Listed saw; nil: every name is looked up.
	listed map[string]bool
	whole  *sync.Map // set of the ids among them that were read and found whole
}

// Listed is the store as a listing of its folder shows it now: no other cell is there.
// On network file systems a name that is looked up before its file is there stays
// missing for half a minute on that machine, while a listing shows it at once; so
// what is missing is decided from listings.
func (s Store) Listed() (Store, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("listing the cells of %s: %w", s.Dir, safefile.Explain(err))
	}
	s.listed, s.whole = make(map[string]bool, len(entries)), new(sync.Map)
	for _, e := range entries {
		s.listed[e.Name()] = true
	}
	return s, nil
}

// ErrTorn is wrapped by the errors of reading a file that is not a whole, valid
// cell: cut short, altered, or something else altogether.
var ErrTorn = errors.New("not a valid cell")

// Has says whether a listed store has a file of the cell's name; it is not read.
func (s Store) Has(id string) bool { return s.listed[id+".json"] }

// file is the JSON of a cell, keys sorted.
type file struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Result json.RawMessage `json:"result"`
	SHA256 string          `json:"sha256"`
	Spec   json.RawMessage `json:"spec"`
}

// ID names the cell of a spec: the hex of the first 16 bytes of the SHA-256 of
// kind, a newline and the spec's canonical JSON.
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

// Path is the file of a cell; its measured times stand beside it (SaveRun).
func (s Store) Path(id string) string { return filepath.Join(s.Dir, id+".json") }

const runSuffix = ".run.json"

// Save writes the cell id of spec, which is ID(kind, spec), with its result.
// Both must be JSON values: a NaN is an error.
func (s Store) Save(id, kind string, spec, result any) error {
	f, err := seal(kind, spec, result)
	if s.Dir == "" {
		err = errors.New("the store has no folder")
	}
	if err == nil && f.ID != id {
		err = fmt.Errorf("its spec has the id %s", f.ID)
	}
	if err != nil {
		return fmt.Errorf("saving cell %s of kind %s: %w", id, kind, err)
	}
	return writeJSON(s.Path(id), f, safefile.MaxCell)
}

// seal makes the file of a cell, checksum included.
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

func checksum(kind string, spec, result []byte) string {
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(kind), spec, result}, []byte("\n")))
	return hex.EncodeToString(sum[:])
}

// SaveRun writes what belongs to the computing of a cell and not to the cell:
// times, host, date. It goes to <id>.run.json, which no comparison reads.
func (s Store) SaveRun(id string, run any) error {
	return writeJSON(filepath.Join(s.Dir, id+runSuffix), run, safefile.MaxRecord)
}

// LoadRun reads what SaveRun wrote, fs.ErrNotExist where there is nothing.
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

// writeJSON refuses to write what would not be read.
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

// Load reads cell id into spec and result, pointers as for json.Unmarshal (nil:
// not wanted). A file that is no whole cell gives an error that wraps ErrTorn, a
// missing one fs.ErrNotExist. A listed store reads a cell once to find it whole.
func (s Store) Load(id string, spec, result any) error {
	if s.whole != nil && spec == nil && result == nil {
		if _, ok := s.whole.Load(id); ok {
			return nil
		}
	}
	var f file
	err := error(&fs.PathError{Op: "open", Path: s.Path(id), Err: fs.ErrNotExist})
	if s.listed == nil || s.listed[id+".json"] {
		f, err = read(s.Path(id))
	}
	if err == nil && f.ID != id {
		err = fmt.Errorf("%w: it holds cell %s", ErrTorn, f.ID)
	}
	if err == nil {
		err = f.into(spec, result)
	}
	if err != nil {
		return fmt.Errorf("reading cell %s: %w", s.Path(id), explain(err))
	}
	if s.whole != nil {
		s.whole.Store(id, true)
	}
	return nil
}

func explain(err error) error {
	if errors.Is(err, ErrTorn) {
		return fmt.Errorf("%w (hint: delete the file and run the same command again; it makes only what is missing)", err)
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

// parse reads and verifies the bytes of a cell file. One that was written here
// is cut up where its fields must stand, which its checksum then proves; any
// other layout of the same JSON is brought to that form first.
func parse(b []byte) (f file, err error) {
	if f, ok := cut(b); ok && f.verify() == nil {
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

// cut takes a canonical file apart without reading the JSON of spec and result.
func cut(b []byte) (f file, ok bool) {
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

// verify checks id and checksum against the bytes of spec and result.
func (f file) verify() error {
	if f.ID != id(f.Kind, f.Spec) {
		return fmt.Errorf("%w: its spec does not give its id", ErrTorn)
	}
	if f.SHA256 != checksum(f.Kind, f.Spec, f.Result) {
		return fmt.Errorf("%w: its checksum is wrong", ErrTorn)
	}
	return nil
}

// Entry is a file of a store that holds a cell.
type Entry struct {
	ID, Kind string
	SHA256   string // of its content: equal cells have equal ones
	path     string
	file     file
}

// Path is the entry's file.
func (e Entry) Path() string { return e.path }

// Into reads spec and result, as Load does.
func (e Entry) Into(spec, result any) error {
	if err := e.file.into(spec, result); err != nil {
		return fmt.Errorf("reading cell %s: %w", e.path, explain(err))
	}
	return nil
}

// Each visits the cells of the store in the order of their ids, each file read
// once. Of a file that cannot be read visit gets the error, which wraps ErrTorn where it is no whole cell;
// what visit returns ends the visits. A missing folder has no cells.
func (s Store) Each(ctx context.Context, visit func(Entry, error) error) error {
	return s.EachNew(ctx, map[string]bool{}, visit)
}

// EachNew is Each of the cells that are not in seen, to which it adds them.
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
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && f.ID != name {
			err = fmt.Errorf("%w: it holds cell %s", ErrTorn, f.ID)
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
