package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model/train/metrics"
)

// watchDir is the folder of films, <task>-<method>-<tier>.gif.
const watchDir = "watch"

// Data is a results folder as it was read.
type Data struct {
	Cells    []results.Cell         // sorted by ID
	Runs     map[string]results.Run // measured times, by cell ID
	Gates    []results.Gate         // of the tasks' frames
	Analyses []results.Analysis     // sorted by ID
	Training []Training
	Clips    []Clip
	Unread   []string // files that could not be used, and why
}

// Training is the curve of one training run.
type Training struct {
	Task, Method string // or a variant of a method: scale@half
	Seed         int
	Rows         []metrics.Row
}

// Clip is one episode to watch.
type Clip struct {
	Task, Method, Tier string // Task is "" where the file's name does not say; Method may be a variant
	GIF                []byte
}

// Load reads a results folder: cells, measured times, training metrics and
// clips, wherever below dir they lie. A missing folder is an error; what is
// missing or broken inside is told of in Unread.
func Load(ctx context.Context, dir string) (*Data, error) {
	f, err := results.Load(ctx, dir)
	if err != nil {
		return nil, err
	}
	d := &Data{Cells: f.Cells, Runs: f.Runs, Gates: f.Gates, Analyses: f.Analyses, Unread: slices.Concat(f.Torn, f.Problems)}
	_, err = safefile.Walk(ctx, dir, func(path string, folder bool) error {
		if !folder {
			d.take(path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the results folder %s: %w", dir, err)
	}
	slices.SortStableFunc(d.Clips, func(a, b Clip) int {
		return cmp.Or(compareTasks(a.Task, b.Task), compareArms(a.Method, b.Method), strings.Compare(a.Tier, b.Tier))
	})
	return d, nil
}

// Only leaves the cells of these ids, with the curves, films and verdicts on frames
// of their arms and tasks.
func (d *Data) Only(ids map[string]bool) {
	type arm struct {
		task, method string
		seed         int
	}
	arms, methods, tasks := map[arm]bool{}, map[arm]bool{}, map[string]bool{}
	d.Cells = slices.DeleteFunc(d.Cells, func(c results.Cell) bool { return !ids[c.ID] })
	for _, c := range d.Cells {
		for _, name := range []string{c.Spec.Method, infer.ArmName(c.Spec)} { // folders call what a preset trains by its method alone
			arms[arm{c.Spec.Task, name, c.Spec.TrainSeed}], methods[arm{task: c.Spec.Task, method: name}] = true, true
		}
		tasks[c.Spec.Task] = true
	}
	d.Analyses = slices.DeleteFunc(d.Analyses, func(a results.Analysis) bool { return !ids[a.ID] })
	d.Training = slices.DeleteFunc(d.Training, func(t Training) bool { return !arms[arm{t.Task, t.Method, t.Seed}] })
	d.Clips = slices.DeleteFunc(d.Clips, func(c Clip) bool { return c.Task != "" && !methods[arm{task: c.Task, method: c.Method}] })
	d.Gates = slices.DeleteFunc(d.Gates, func(g results.Gate) bool { return !tasks[g.Task] })
}

// take reads a file if it is a training log or a clip.
func (d *Data) take(path string) {
	parent := filepath.Base(filepath.Dir(path))
	switch {
	case filepath.Base(path) == metrics.FileName:
		t, ok := runName(parent)
		if !ok {
			return
		}
		var err error
		if t.Rows, err = metrics.Read(filepath.Dir(path)); err != nil {
			d.Unread = append(d.Unread, err.Error())
		} else if len(t.Rows) > 0 {
			d.Training = append(d.Training, t)
		}
	case parent == watchDir && filepath.Ext(path) == ".gif":
		c, err := loadClip(path)
		if err != nil {
			d.Unread = append(d.Unread, err.Error())
			return
		}
		d.Clips = append(d.Clips, c)
	}
}

var runPattern = regexp.MustCompile(`^([^-]+)-(.+)-s(\d+)$`)

// runName reads the folder name of a training run, <task>-<method>-s<seed>.
func runName(folder string) (Training, bool) {
	m := runPattern.FindStringSubmatch(folder)
	if m == nil {
		return Training{}, false
	}
	seed, err := strconv.Atoi(m[3])
	t := Training{Task: m[1], Method: m[2], Seed: seed}
	return t, err == nil && safefile.CheckNames(t) == nil
}

// loadClip reads <method>-<tier>.gif; <task>-<method>-<tier>.gif names the task too.
func loadClip(path string) (Clip, error) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".gif"), "-")
	var c Clip
	switch last := len(parts) - 1; last {
	case 0:
		c.Method = parts[0]
	case 1:
		c.Method, c.Tier = parts[0], parts[1]
	default:
		c.Task, c.Method, c.Tier = parts[0], strings.Join(parts[1:last], "-"), parts[last]
	}
	if err := safefile.CheckNames(c); err != nil {
		return Clip{}, fmt.Errorf("reading the clip %q: %w", path, err)
	}
	if !infer.MethodOf(c.Method).Plans() {
		c.Tier = "" // it plans nothing
	}
	b, err := safefile.Read(path, safefile.MaxFilm)
	if err != nil {
		return Clip{}, fmt.Errorf("reading the clip: %w (hint: it is left out of the page)", err)
	}
	if !bytes.HasPrefix(b, []byte("GIF8")) {
		return Clip{}, fmt.Errorf("reading the clip %s: it is no GIF (hint: make it again)", path)
	}
	c.GIF = b
	return c, nil
}
