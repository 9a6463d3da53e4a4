package analysis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// Names lists the analyses.
func Names() []string {
	return []string{results.RankAnalysis, results.SpectrumAnalysis, results.ProbeAnalysis, results.RolloutAnalysis, results.DynamicsAnalysis, results.CostAnalysis}
}

// Parse reads a list of names with commas; all and none are lists too.
func Parse(s string) (out []string, err error) {
	switch s {
	case "all":
		return Names(), nil
	case "none":
		return nil, nil
	}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("unknown analysis %q (hint: %s, all or none)", name, strings.Join(Names(), ", "))
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// Settings say how rollouts are measured: from how many starts, with how many
// candidates, and whether these are PyTorch's or our own; and how long each timing of
// a cost may take, on which no cell depends.
type Settings struct {
	Starts, Candidates int
	Noise              string
	Timing             time.Duration
}

// Published are the settings of the paper.
func Published() Settings {
	return Settings{Starts: 20, Candidates: 64, Noise: TorchNoise, Timing: 2 * time.Second}
}

// Job is some analyses of one checkpoint: the Arm of an evaluation's job, on its
// task and data.
type Job struct {
	eval.Job
	Settings
	Device     string // kind of the device that the arm's model is on, or would be
	Checkpoint string // its folder
	Film       string // path of a film of what the model imagines, which dynamics makes too; "": none
}

// measurement is a job with the model of its arm.
type measurement struct {
	Job
	world model.World
}

// Spec determines the cell of an analysis.
func (j Job) Spec(name string) results.AnalysisSpec {
	a := j.Arm
	s := results.AnalysisSpec{Schema: results.AnalysisSchema, Analysis: name, Protocol: string(j.Protocol), Task: j.Task.Spec.Name,
		Method: a.Method, TrainSeed: a.TrainSeed, Weights: a.Weights, Recipe: a.Recipe.Hash, Q: a.Recipe.Q, LossWeight: a.Recipe.Weight, Backbone: a.Backbone,
		Data: j.Data.Fingerprint, Device: j.Device}
	if j.Task.Spec.Name == dataset.NoTask && len(j.Task.Spec.Qs) > 0 {
		s.QColumns = strings.Join(j.Task.Spec.Qs[0].Parts, ",")
	}
	if name == results.RolloutAnalysis {
		s.Starts, s.Candidates, s.Noise = j.Starts, j.Candidates, j.Noise
	}
	return s
}

// IDs are the cells of analyses.
func (j Job) IDs(names []string) (ids []string, err error) {
	for _, name := range names {
		id, err := cell.ID(results.AnalysisKind, j.Spec(name))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Load reads the results that the store has and lists those that are missing; a
// torn cell is one of them. A store without a folder has none.
func (j Job) Load(store cell.Store, names []string) (r results.Results, missing []string, err error) {
	if store.Dir == "" {
		return r, names, nil
	}
	ids, err := j.IDs(names)
	if err != nil {
		return r, nil, err
	}
	for i, name := range names {
		switch err := store.Load(ids[i], nil, r.Part(name)); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, cell.ErrTorn):
			missing = append(missing, name)
		case err != nil:
			return r, nil, err
		case name == results.CostAnalysis:
			r.Cost.Times = new(results.CostTimes)
			if store.LoadRun(ids[i], r.Cost.Times) != nil { // lost, as in a folder that was merged without them
				r.Cost.Times = nil
			}
		}
	}
	return r, missing, nil
}

// Run makes those of the analyses that the store lacks, and returns all of them with the number
// of new ones. The model is loaded only if something is to be made. Analyses of the same frames share their latents.
func Run(ctx context.Context, store cell.Store, j Job, names []string, load func() (model.World, error)) (r results.Results, made int, err error) {
	r, missing, err := j.Load(store, names)
	if j.Film != "" && !slices.Contains(missing, results.DynamicsAnalysis) {
		missing = append(missing, results.DynamicsAnalysis) // whose cell has the same bytes again
	}
	if err != nil || len(missing) == 0 {
		return r, 0, err
	}
	m := measurement{Job: j}
	if m.world, err = load(); err != nil {
		return r, 0, err
	}
	var shared *latents
	for _, name := range missing {
		if err := m.measure(ctx, name, &shared, &r); err != nil {
			return r, 0, fmt.Errorf("analysing %s on %s (%s): %w", j.Arm.Method, j.Task.Spec.Name, name, err)
		}
		if store.Dir == "" {
			continue
		}
		spec := j.Spec(name)
		id, err := cell.ID(results.AnalysisKind, spec)
		if err == nil && name == results.CostAnalysis {
			err = store.SaveRun(id, r.Cost.Times)
		}
		if err == nil {
			err = store.Save(id, results.AnalysisKind, spec, r.Part(name))
		}
		if err != nil {
			return r, 0, err
		}
	}
	return r, len(missing), nil
}

func (j measurement) measure(ctx context.Context, name string, shared **latents, r *results.Results) (err error) {
	switch name {
	case results.RolloutAnalysis:
		r.Rollout, err = j.rollouts(ctx)
		return err
	case results.DynamicsAnalysis:
		r.Dynamics, err = j.dynamics(ctx)
		return err
	case results.CostAnalysis:
		r.Cost, err = j.cost(ctx)
		return err
	}
	if *shared == nil {
		if *shared, err = newLatents(ctx, j.Job.Job, j.world); err != nil {
			return err
		}
	}
	switch name {
	case results.RankAnalysis:
		r.Rank, err = (*shared).rank()
	case results.SpectrumAnalysis:
		r.Spectrum, err = (*shared).spectrum()
	default:
		r.Probe, err = (*shared).probe()
	}
	return err
}
