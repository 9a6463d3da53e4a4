package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/eval/record"
)

// Files of a results folder besides its cells.
const (
	metricsFile = "metrics.jsonl" // in train/<task>-<method>-s<seed>/
	watchDir    = "watch"         // <method>-<tier>.gif
)

// maxClip bounds the bytes of one embedded clip, so that a page stays loadable.
const maxClip = 8 << 20

// Load reads a results folder: cells, measured times, training metrics and
// clips, wherever below dir they lie. A missing folder is an error; what is
// missing or broken inside becomes a problem.
func Load(dir string) (*Data, error) {
	f, err := record.Load(dir)
	if err != nil {
		return nil, err
	}
	d := &Data{Cells: f.Cells, Runs: f.Runs, Gates: f.Gates, Problems: f.Problems}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		d.take(path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the results folder %s: %w", dir, err)
	}
	slices.SortStableFunc(d.Clips, func(a, b Clip) int {
		return cmp.Or(byOrder(taskOrder, a.Task, b.Task), byOrder(methodOrder, a.Method, b.Method), strings.Compare(a.Tier, b.Tier))
	})
	return d, nil
}

// take reads a file if it is a training log or a clip.
func (d *Data) take(path string) {
	parent := filepath.Base(filepath.Dir(path))
	switch {
	case filepath.Base(path) == metricsFile:
		t, ok := runName(parent)
		if !ok {
			return
		}
		if err := t.load(path); err != nil {
			d.Problems = append(d.Problems, err.Error())
		}
		if len(t.Train.Steps) > 0 {
			d.Training = append(d.Training, t)
		}
	case parent == watchDir && filepath.Ext(path) == ".gif":
		c, err := loadClip(path)
		if err != nil {
			d.Problems = append(d.Problems, err.Error())
			return
		}
		d.Clips = append(d.Clips, c)
	}
}

// loadClip reads <method>-<tier>.gif; <task>-<method>-<tier>.gif names the task too.
func loadClip(path string) (Clip, error) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".gif"), "-")
	c := Clip{Method: parts[0]}
	switch len(parts) {
	case 1:
	case 2:
		c.Tier = parts[1]
	default:
		c.Task, c.Method, c.Tier = parts[0], parts[1], parts[2]
	}
	if c.Method == random {
		c.Tier = "" // it plans nothing
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Clip{}, fmt.Errorf("reading the clip: %w", err)
	}
	if !bytes.HasPrefix(b, []byte("GIF8")) {
		return Clip{}, fmt.Errorf("reading the clip %s: it is no GIF (hint: make it again)", path)
	}
	if len(b) > maxClip {
		return Clip{}, fmt.Errorf("the clip %s has %d MB and is left out of the page, whose clips may have %d MB", path, len(b)>>20, maxClip>>20)
	}
	c.GIF = b
	return c, nil
}
