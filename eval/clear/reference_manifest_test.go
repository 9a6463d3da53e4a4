package clear

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
)

func init() {
	families["manifest"] = referenceManifest
	families["expected"] = referenceExpected
}

// expectedData describes a data set that manifests are read with.
type expectedData struct {
	File, Task     string
	EpLen          []int   `json:"ep_len"`
	EpID           []int64 `json:"ep_id"`
	Schema         []column
	SizeBytes      int64  `json:"size_bytes"`
	MetadataSHA256 string `json:"metadata_sha256"`
	FileSHA256     string `json:"file_sha256"`
}

// expectedManifest is what a reader makes of a manifest.
type expectedManifest struct {
	Data                          string
	OK                            bool
	WithOtherData                 bool `json:"with_other_data"`
	Why, SHA256                   string
	Task, Protocol, Rule          *string
	Hold, Budget, History, Stride *int
	GoalOffset                    *int    `json:"goal_offset"`
	PolicySeed                    *uint64 `json:"policy_seed"`
	StartState                    *string `json:"start_state"`
	Starts                        *[][2]int
	Redraw                        bool
	Statistics                    json.RawMessage
}

type expectedFile struct {
	DataSets  map[string]expectedData `json:"data_sets"`
	Manifests map[string]expectedManifest
}

// verdict finds the entry of a manifest in the files expected*.json of its folder.
func verdict(t *testing.T, path string) (expectedManifest, expectedData) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "expected*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m expectedManifest
	found := false
	data := map[string]expectedData{}
	for _, name := range files {
		var file expectedFile
		load(t, name, &file)
		if e, ok := file.Manifests[filepath.Base(path)]; ok {
			m, found = e, true
		}
		for name, d := range file.DataSets {
			data[name] = d
		}
	}
	if !found {
		t.Fatalf("no expected*.json has a verdict")
	}
	d, ok := data[m.Data]
	if !ok {
		t.Fatalf("no expected*.json has the data set %q", m.Data)
	}
	return m, d
}

// read reads a manifest with its data set and returns its starts.
func read(path string, d expectedData, otherData bool) (m *Manifest, starts [][2]int, src *hdf5.File, err error) {
	if m, err = Read(path); err != nil {
		return nil, nil, nil, err
	}
	if m.Task != d.Task {
		return nil, nil, nil, fmt.Errorf("a manifest of %s for data of %s (hint: as eval does, from --task)", m.Task, d.Task)
	}
	file := filepath.Join(filepath.Dir(path), d.File)
	if src, err = hdf5.Open(file); err != nil {
		return nil, nil, nil, err
	}
	list, err := m.Check(src, file, otherData)
	for _, s := range list {
		starts = append(starts, [2]int{s.Episode, s.Row})
	}
	return m, starts, src, err
}

// referenceManifest checks what becomes of a manifest.
func referenceManifest(t *testing.T, path string) {
	want, d := verdict(t, path)
	m, starts, src, err := read(path, d, false)
	if src != nil {
		defer src.Close()
	}
	if !want.OK {
		if err == nil {
			t.Fatalf("it is accepted, although %s", want.Why)
		}
		if s := err.Error(); !strings.HasSuffix(s, ")") || !strings.Contains(s, "(hint: ") || strings.Contains(s, "\n") {
			t.Errorf("the error is not one line with a hint: %v", err)
		}
		t.Logf("%s: %v", want.Why, err)
		if want.WithOtherData {
			if _, _, other, err := read(path, d, true); err != nil {
				t.Errorf("with other data: %v", err)
			} else {
				other.Close()
			}
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	checkRead(t, path, m, want, starts)
	if want.Redraw {
		checkRedraw(t, m, src, d, want.Statistics)
	}
}

// checkRead compares a manifest with the keys that its entry has.
func checkRead(t *testing.T, path string, m *Manifest, want expectedManifest, starts [][2]int) {
	for name, c := range map[string][2]any{
		"sha256":      {m.SHA256, cmp.Or(want.SHA256, "missing")},
		"task":        {m.Task, want.Task},
		"protocol":    {m.Protocol.Name, want.Protocol},
		"rule":        {m.RuleName(), want.Rule},
		"hold":        {m.Hold(), want.Hold},
		"goal_offset": {m.Protocol.GoalOffset, want.GoalOffset},
		"budget":      {m.Protocol.Budget, want.Budget},
		"policy_seed": {m.PolicySeed, want.PolicySeed},
		"start_state": {m.StartState, want.StartState},
		"history":     {m.History, want.History},
		"stride":      {m.Stride, want.Stride},
		"starts":      {starts, want.Starts},
	} {
		if v := reflect.ValueOf(c[1]); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			c[1] = v.Elem().Interface()
		}
		if !reflect.DeepEqual(c[0], c[1]) {
			t.Errorf("%s is %v, want %v", name, c[0], c[1])
		}
	}
	// The protocol object is the file's, byte for byte.
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(b, m.Raw) || !json.Valid(m.Raw) {
		t.Errorf("the protocol object is not the file's (%v)", err)
	}
}

// checkRedraw draws the starts of a manifest again.
func checkRedraw(t *testing.T, m *Manifest, src *hdf5.File, d expectedData, statistics json.RawMessage) {
	rows, st, err := Select(src, m.Task, m.Selection())
	if err != nil {
		t.Fatalf("drawing again: %v", err)
	}
	var want []int
	for _, p := range m.Pairs {
		want = append(want, p.StartRow)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("drawing again gives the rows %v, want %v", rows, want)
	}
	got, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var a, b map[string]any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(statistics, &b) != nil || len(b) == 0 {
		t.Fatalf("statistics %s", statistics)
	}
	for key, want := range b {
		if a[key] != want {
			t.Errorf("drawing again gives %s %v, want %v", key, a[key], want)
		}
	}
}

// schemaText lists the data sets of a schema, sorted.
func schemaText(schema []column) string {
	var list []string
	for _, c := range schema {
		list = append(list, fmt.Sprintf("%s %s %v", c.Key, c.DType, c.Shape))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// referenceExpected checks the data sets: episodes, ids, schema, size and fingerprints.
func referenceExpected(t *testing.T, path string) {
	var file expectedFile
	load(t, path, &file)
	for name, d := range file.DataSets {
		data := filepath.Join(filepath.Dir(path), d.File)
		schema, size, err := schemaOf(data)
		if got, want := schemaText(schema), schemaText(d.Schema); err != nil || size != d.SizeBytes || got != want {
			t.Errorf("%s: %d bytes, %v, with %s, want %d bytes with %s", name, size, err, got, d.SizeBytes, want)
		}
		if got, err := Fingerprint(data); got != d.MetadataSHA256 || err != nil {
			t.Errorf("%s: metadata-sha256 %s, %v, want %s", name, got, err, d.MetadataSHA256)
		}
		if got, err := FileSHA256(data); got != d.FileSHA256 || err != nil {
			t.Errorf("%s: file-sha256 %s, %v, want %s", name, got, err, d.FileSHA256)
		}
		src, err := hdf5.Open(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		table, err := Table(src, "")
		if err != nil || !slices.Equal(table.Lengths, d.EpLen) || d.EpID != nil && !slices.Equal(table.IDs, d.EpID) {
			t.Errorf("%s: episodes %v with ids %v, %v, want %v, %v", name, table.Lengths, table.IDs, err, d.EpLen, d.EpID)
		}
		src.Close()
	}
	for name := range file.Manifests {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil {
			t.Errorf("the manifest %s has a verdict but no file: %v", name, err)
		}
	}
}
