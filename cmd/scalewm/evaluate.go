package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/record"
	"scalewm/model/device"
	"scalewm/model/lewm"
	"scalewm/model/train"
	"scalewm/model/weights"
)

// evaluation is what all arms of a task meet: data, sets, tiers. `eval` runs
// one arm of it, `reproduce` all.
type evaluation struct {
	task     envs.Task
	protocol eval.Protocol
	solvers  []string
	tiers    []eval.Tier
	workers  int
	out      string // cells go to out/cells, films to out/watch

	file *hdf5.File
	data *eval.Data
	sets []eval.Set

	// Frames at the model's size, where several arms of this task train.
	frames     dataset.FrameReader
	freeFrames func() error
}

// close gives back the data set and the frames.
func (e *evaluation) close() {
	if e.freeFrames != nil {
		e.freeFrames()
	}
	e.file.Close()
}

// openData opens the data set and draws the sets.
func (e *evaluation) openData(path string, sets []string, episodes int) error {
	var err error
	if e.file, err = hdf5.Open(path); err != nil {
		return err
	}
	if e.data, err = eval.NewData(e.file, e.task, e.protocol); err != nil {
		e.file.Close()
		return err
	}
	e.sets = nil
	for _, name := range sets {
		s, err := e.data.Set(name, episodes)
		if err != nil {
			e.file.Close()
			return err
		}
		e.sets = append(e.sets, s)
	}
	return nil
}

func (e *evaluation) store() cell.Store {
	return cell.Store{Dir: filepath.Join(e.out, record.CellsDir)}
}

// jobs are an arm's units: one for each solver and tier, one in all for random actions.
func (e *evaluation) jobs(arm eval.Arm) []eval.Job {
	j := eval.Job{Task: e.task, Data: e.data, Protocol: e.protocol, Arm: arm, Sets: e.sets, Workers: e.workers, Version: version()}
	if arm.World == nil {
		return []eval.Job{j}
	}
	var out []eval.Job
	for _, solver := range e.solvers {
		for _, tier := range e.tiers {
			j.Solver, j.Tier = solver, tier
			out = append(out, j)
		}
	}
	return out
}

// label says which unit a job is: "tworoom lewm s3072 cem T1".
func label(j eval.Job) string {
	words := []string{j.Task.Spec.Name, j.Arm.Method}
	if j.Arm.World != nil {
		words = append(words, fmt.Sprintf("s%d", j.Arm.TrainSeed), j.Solver, j.Tier.Name)
	}
	return strings.Join(words, " ")
}

// loadArm reads a checkpoint onto a device and checks that it is the task's.
func loadArm(dev device.Device, dir, task string) (eval.Arm, error) {
	m, side, err := lewm.Load(dev, dir)
	if err != nil {
		return eval.Arm{}, err
	}
	if side.Task != task {
		m.Free()
		return eval.Arm{}, fmt.Errorf("the checkpoint %s was trained on the task %s, not %s (hint: give the checkpoint's own --task and data set)", dir, side.Task, task)
	}
	arm := eval.Arm{Method: side.Method, TrainSeed: int(side.Seed), Weights: side.SHA256, World: m, Protocol: eval.Protocol(side.Protocol)}
	if side.Method == train.Untrained {
		arm.Protocol = ""
	}
	return arm, nil
}

// randomArm acts uniformly at random.
var randomArm = eval.Arm{Method: "random"}

// trained says whether a whole checkpoint lies in dir.
func trained(dir string) (bool, error) {
	_, _, err := weights.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// watch leaves a film of the first episode of the first set, unless it is there.
func (e *evaluation) watch(ctx context.Context, j eval.Job) error {
	// random actions have no tier; their film carries the name of the first
	path := filepath.Join(e.out, "watch", strings.Join([]string{e.task.Spec.Name, j.Arm.Method, e.tiers[0].Name}, "-")+".gif")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	film, err := eval.Watch(ctx, j, 0)
	if err != nil {
		return err
	}
	return film.Save(path)
}

// run makes the missing cells of one job, and the film of an arm's first.
func (e *evaluation) run(ctx context.Context, c *command, j eval.Job, film bool) ([]record.Cell, []eval.Failure, error) {
	show := newProgress(c.stderr, "evaluating "+label(j))
	defer show.close()
	j.Progress = show.report
	cells, failed, err := eval.Cells(ctx, e.store(), j)
	if err == nil && film && len(failed) == 0 {
		err = e.watch(ctx, j)
	}
	return cells, failed, err
}

// score is one line of the table of results: the success of an arm at a tier,
// mean and standard deviation over sets in percent (as in report.json).
type score struct {
	Task   string  `json:"task"`
	Method string  `json:"method"`
	Seed   int     `json:"seed"`
	Solver string  `json:"solver"`
	Tier   string  `json:"tier"`
	Sets   int     `json:"sets"`
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	SD     float64 `json:"sd"`
}

// newScore sums up the cells of one job.
func newScore(cells []record.Cell) score {
	s := cells[0].Spec
	out := score{Task: s.Task, Method: s.Method, Seed: s.TrainSeed, Solver: s.Solver, Tier: s.Tier, Sets: len(cells)}
	for _, c := range cells {
		out.N += len(c.Result.Rows)
		out.Mean += c.Result.Rate() / float64(len(cells))
	}
	for _, c := range cells {
		d := c.Result.Rate() - out.Mean
		out.SD += d * d
	}
	out.SD = math.Sqrt(out.SD / float64(max(len(cells)-1, 1)))
	return out
}

func printScores(w io.Writer, scores []score) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmethod\tseed\tsolver\ttier\tsets\tepisodes\tsuccess\tSD")
	for _, s := range scores {
		seed := fmt.Sprint(s.Seed)
		if s.Solver == "" {
			seed, s.Solver, s.Tier = "-", "-", "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.1f %%\t%.1f\n", s.Task, s.Method, seed, s.Solver, s.Tier, s.Sets, s.N, s.Mean, s.SD)
	}
	return t.Flush()
}
