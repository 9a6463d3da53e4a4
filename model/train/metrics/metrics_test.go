package metrics

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
)

// Read returns the rows that were written. It ignores an incomplete last line, and
// returns an error for a malformed line before it.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	rows := []Row{{Step: 0, Split: Train, Losses: Losses{Loss: 1.5, Pred: 1, SIGReg: .25, Obj: .25, Skipped: 1}, GradNorm: 2,
		Diagnostics: &Diagnostics{PredGrad: 3, Rank: 1}}, {Step: 0, Split: Val}, {Step: 1, Split: Train, LR: .5}}
	l, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var two int64
	for i, r := range rows {
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			two, _ = l.Flush()
		}
	}
	l.Close()
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("%+v, %v; want %+v", got, err, rows)
	}
	if l, err = Open(dir, two); err != nil { // as a resumed training opens it
		t.Fatal(err)
	}
	l.Close()
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, rows[:2]) {
		t.Errorf("cut back: %+v, %v; want %+v", got, err, rows[:2])
	}
	if _, err := Open(dir, two+1); err == nil || !strings.Contains(err.Error(), "the resume point was written after") {
		t.Errorf("a file shorter than its resume point: %v", err)
	}
	path := filepath.Join(dir, FileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{string(whole) + `{"step":1,"spl`: 2, string(whole) + `{"step":1,"spl` + "\n" + string(whole): -1} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir)
		if want >= 0 && (err != nil || len(got) != want) || want < 0 && (err == nil || !strings.Contains(err.Error(), "line 3")) {
			t.Errorf("%q: %d rows, %v", text, len(got), err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"step":1,"split":"train","loss":0.5,"pred_grad":1}` + "\n" + `{"step":1,"split":"val"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() { _, _ = parse(bytes.NewReader(b)) })
	})
}

// testdata/events.tfevents was written by TensorBoard's own writer from these rows
// (testdata/events.py).
func TestEvents(t *testing.T) {
	rows := []Row{
		{Step: 0, Split: Train, Losses: Losses{Loss: 1.5, Pred: .25}, Diagnostics: &Diagnostics{Rank: 13}},
		{Step: 300, Split: Val, Losses: Losses{Loss: 1, SIGReg: -2}},
	}
	want, err := os.ReadFile("testdata/events.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := WriteEvents(&got, rows); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("events\n%q, TensorBoard's own\n%q", got.Bytes(), want)
	}
	if !bytes.HasPrefix(want, EventsHead()) {
		t.Error("TensorBoard's file begins otherwise than EventsHead says")
	}
}
