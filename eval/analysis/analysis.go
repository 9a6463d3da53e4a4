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
	// Film, where set, gets a film of what the model imagines when dynamics is measured.
	Film func(eval.Film) error
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

// Make measures what is missing, into r, and writes it to the store. Analyses of
// the same frames share their latents.
func (j Job) Make(ctx context.Context, store cell.Store, r *results.Results, missing []string) error {
	var shared *latents
	for _, name := range missing {
		if err := j.measure(ctx, name, &shared, r); err != nil {
			return fmt.Errorf("analysing %s on %s (%s): %w", j.Arm.Method, j.Task.Spec.Name, name, err)
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
			return err
		}
	}
	return nil
}

func (j Job) measure(ctx context.Context, name string, shared **latents, r *results.Results) (err error) {
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
		if *shared, err = newLatents(ctx, j.Job); err != nil {
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
