package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
)

// waiter is a Listener that does not let the first evaluation begin until a file exists.
type waiter struct {
	silent
	file   string
	notes  []string
	failed []error
	late   bool // the file did not appear
}

func (w *waiter) Begin(id string, _, _ int) {
	for end := time.Now().Add(time.Minute); strings.HasPrefix(id, "evaluate tworoom") && w.file != "" && !exists(w.file); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.late = true
			return
		}
	}
}

func (w *waiter) Note(text string)           { w.notes = append(w.notes, text) }
func (w *waiter) Failed(_ string, err error) { w.failed = append(w.failed, err) }

// TestAhead collects the second task's data set while the first task is evaluated. The files
// are those of a run without it, notes are passed on, and errors are the step's.
func TestAhead(t *testing.T) {
	run := func(ahead bool, setUp func(dir string)) (string, *waiter) {
		dir := t.TempDir()
		setUp(dir)
		p, err := LoadPreset("nano", "collect.episodes=3")
		if err != nil {
			t.Fatal(err)
		}
		g := Grid{Preset: *p, Tasks: lookUp(t, envs.Lookup, "tworoom", "pusht"), Methods: lookUp(t, model.LookUp, "random"), Seeds: []int64{1}, Definition: protocol.Definition{Rules: results.Published()}, Episodes: 2}
		if g.Axes, err = ParseAxes(results.CEM, "T5", "s101"); err != nil {
			t.Fatal(err)
		}
		l := &waiter{}
		if ahead {
			l.file = filepath.Join(dir, "data", "pusht.h5")
		}
		w := NewWorkspace(g, dir, Options{Ahead: ahead, Workers: 1, Listener: l})
		defer w.Close()
		if _, err := w.Run(context.Background(), w.Graph()); err != nil {
			t.Fatal(err)
		}
		return dir, l
	}
	first, _ := run(false, func(string) {})
	second, l := run(true, func(string) {})
	if l.late || len(l.failed) > 0 || len(l.notes) < 2 {
		t.Errorf("late: %v, failed: %v, notes %q", l.late, l.failed, l.notes)
	}
	for _, name := range []string{"data/tworoom.h5", "data/pusht.h5"} {
		a, err := os.ReadFile(filepath.Join(first, name))
		b, err2 := os.ReadFile(filepath.Join(second, name))
		if err = errors.Join(err, err2); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs, %v", name, err)
		}
	}
	// Another file is where the data set should be.
	_, l = run(true, func(dir string) {
		if err := safefile.WriteBytes(filepath.Join(dir, "data", "pusht.h5"), []byte("mine")); err != nil {
			t.Fatal(err)
		}
	})
	if len(l.failed) != 1 || !strings.Contains(l.failed[0].Error(), "pusht.h5") {
		t.Errorf("failed: %v", l.failed)
	}
}
