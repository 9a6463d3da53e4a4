package libscalewm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
)

// recordRequest is the request of a recording of 3 episodes, in parts of 2 and 1.
func recordRequest(out string) map[string]any {
	return map[string]any{"out": out, "spec": "s", "attrs": map[string]string{"env": "e"}, "frame_size": 2, "episodes": 3, "max_rows": 1000,
		"columns": []map[string]any{{"name": "t", "dtype": "int64", "width": 1, "matrix": true}, {"name": "b", "dtype": "uint8", "width": 2, "matrix": false}}}
}

// appendRows passes an episode to a recording.
func appendRows(h uint64, rows, first int) error {
	t, b, frames := memoryOfNumbers(rows, 8), memoryOfNumbers(rows, 2), memoryOfNumbers(rows, 12)
	for i := range rows {
		binary.NativeEndian.PutUint64(t[8*i:], uint64(1<<60+first+i))
		frames[12*i] = byte(first + i)
	}
	_, err := try("recording.append", h, nil, t, b, frames)
	return err
}

// A recording that is closed before its end leaves parts and no output, and the next one
// continues. Integers beyond 2^53 are exact.
func TestRecordingContinues(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "new", "d.h5")
	opened := func() (uint64, string) {
		a := must(t, "recording.new", 0, recordRequest(out))
		return uint64(a["handle"].(float64)), fmt.Sprint(a["missing"])
	}
	h, missing := opened()
	if missing != "[[0 2] [2 3]]" {
		t.Errorf("missing at first: %s", missing)
	}
	if _, err := try("recording.new", 0, recordRequest(out)); err == nil || !strings.Contains(err.Error(), "another process is recording into it (hint: ") {
		t.Errorf("a second recording: %v", err)
	}
	for i := range 2 {
		check(t, appendRows(h, 3+i, 10*i))
	}
	if _, err := try("recording.finish", h, nil); err == nil || !strings.Contains(err.Error(), "episodes from 2 on are missing") {
		t.Errorf("finish without an episode: %v", err)
	}
	must(t, "close", h, nil)
	if _, err := os.Stat(out); err == nil {
		t.Error("the output exists before its end")
	}
	h, missing = opened()
	if missing != "[[2 3]]" {
		t.Errorf("missing after a part: %s", missing)
	}
	check(t, appendRows(h, 5, 20))
	if rows := must(t, "recording.finish", h, nil)["rows"]; rows != 12.0 {
		t.Errorf("%v rows", rows)
	}
	must(t, "close", h, nil)
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Errorf("left %v", left)
	}
	f, err := hdf5.Open(out)
	check(t, err)
	defer f.Close()
	ep, err := f.Copy(f.Columns(), f.Episodes()[2])
	check(t, err)
	if last := binary.LittleEndian.Uint64(ep.Raw["t"][8*4:]); last != 1<<60+24 {
		t.Errorf("the last number is %d", last)
	}
	frame := make([]byte, 12)
	check(t, f.Frame(11, frame))
	if frame[0] != 24 {
		t.Errorf("the last frame begins with %d", frame[0])
	}
	if want := map[string]string{"env": "e", recordSpecAttr: "s"}; !maps.Equal(f.Attrs(), want) {
		t.Errorf("attributes %v, want %v", f.Attrs(), want)
	}
}

// Wrong requests and buffers are errors, and a part with other columns is recorded again.
func TestRecordingRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	for want, change := range map[string]map[string]any{
		"0 episodes":                                     {"episodes": 0},
		"frames of 5000 pixels":                          {"frame_size": 5000},
		`the column "x" has 1 numbers of typ`:            {"columns": []map[string]any{{"name": "x", "dtype": "U3", "width": 1, "matrix": false}}},
		`the column "y" has 4611686018427387904 numbers`: {"columns": []map[string]any{{"name": "y", "dtype": "int64", "width": 1 << 62, "matrix": false}}},
	} {
		request := recordRequest(out)
		maps.Copy(request, change)
		if _, err := try("recording.new", 0, request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want words on %q", change, err, want)
		}
	}
	h := uint64(must(t, "recording.new", 0, recordRequest(out))["handle"].(float64))
	fine := [][]byte{memoryOfNumbers(2, 8), memoryOfNumbers(2, 2), memoryOfNumbers(2, 12)}
	for i := range fine {
		for _, size := range []int{0, len(fine[i]) - 1, len(fine[i]) + 1} {
			buffers := slices.Clone(fine)
			buffers[i] = make([]byte, size)
			if _, err := try("recording.append", h, nil, buffers...); err == nil {
				t.Errorf("buffer %d of %d bytes was accepted", i, size)
			}
		}
	}
	if _, err := try("recording.append", h, nil, fine[:2]...); err == nil {
		t.Error("two buffers were accepted")
	}
	if err := appendRows(h, 1001, 0); err == nil || !strings.Contains(err.Error(), "an episode of 1001 rows") {
		t.Errorf("a long episode: %v", err)
	}
	check(t, appendRows(h, 2, 0))
	check(t, appendRows(h, 2, 0))
	must(t, "close", h, nil)
	other := recordRequest(out)
	other["columns"] = []map[string]any{{"name": "t", "dtype": "int32", "width": 1, "matrix": false}}
	a := must(t, "recording.new", 0, other)
	if missing := fmt.Sprint(a["missing"]); missing != "[[0 2] [2 3]]" {
		t.Errorf("missing with other columns: %s", missing)
	}
	must(t, "close", uint64(a["handle"].(float64)), nil)
}
