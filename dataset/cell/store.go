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
	"sort"
	"strings"
)

// Store is a folder of cells.
type Store struct{ Dir string }

// ErrTorn is wrapped by the errors of reading a file that is not a whole, valid
// cell: cut short, altered, or something else altogether.
var ErrTorn = errors.New("not a valid cell")

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
	if err == nil && f.ID != id {
		err = fmt.Errorf("its spec has the id %s", f.ID)
	}
	if err != nil {
		return fmt.Errorf("saving cell %s of kind %s: %w", id, kind, err)
	}
	return writeJSON(s.Path(id), f)
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
	return writeJSON(filepath.Join(s.Dir, id+runSuffix), run)
}

func writeJSON(path string, v any) error {
	b, err := canonical(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// Load reads cell id into spec and result, pointers as for json.Unmarshal (nil:
// not wanted). A file that is no whole cell gives an error that wraps ErrTorn, a
// missing one fs.ErrNotExist.
func (s Store) Load(id string, spec, result any) error {
	f, err := read(s.Path(id))
	if err == nil && f.ID != id {
		err = fmt.Errorf("%w: it holds cell %s", ErrTorn, f.ID)
	}
	if err == nil {
		err = f.into(spec, result)
	}
	if err != nil {
		return fmt.Errorf("reading cell %s: %w%s", s.Path(id), plain(err), loadHint(err))
	}
	return nil
}

// Checksum is the SHA-256 of the valid cell id: equal cells have equal ones.
func (s Store) Checksum(id string) (string, error) {
	f, err := read(s.Path(id))
	if err != nil {
		return "", fmt.Errorf("reading cell %s: %w%s", s.Path(id), plain(err), loadHint(err))
	}
	return f.SHA256, nil
}

func loadHint(err error) string {
	if errors.Is(err, ErrTorn) {
		return " (hint: delete the file and run the same command again; it makes only what is missing)"
	}
	return hint(err)
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
	b, err := ReadFile(path, MaxCell)
	if errors.Is(err, ErrUnfit) {
		err = fmt.Errorf("%w: %w", ErrTorn, plain(err))
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

// Done says whether cell id is present and valid. A torn file is not done and
// no error; a file that cannot be read is one.
func (s Store) Done(id string) (bool, error) {
	err := s.Load(id, nil, nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn) {
		return false, nil
	}
	return err == nil, err
}

// List is the ids of the valid cells of a kind, sorted. Torn files, which the
// next run makes again, and foreign files are left out; a missing folder is empty.
func (s Store) List(ctx context.Context, kind string) ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the cells of %s: %w%s", s.Dir, plain(err), hint(err))
	}
	var ids []string
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), ".json")
		if !isJSON || e.IsDir() || strings.HasSuffix(e.Name(), runSuffix) {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f, err := read(s.Path(name))
		if errors.Is(err, ErrTorn) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading cell %s: %w%s", s.Path(name), plain(err), hint(err))
		}
		if f.Kind == kind && f.ID == name {
			ids = append(ids, name)
		}
	}
	sort.Strings(ids)
	return ids, nil
}
