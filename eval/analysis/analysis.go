package analysis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"scalewm/dataset/cell"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// Names returns the names of the analyses.
func Names() []string {
	return []string{results.RankAnalysis, results.SpectrumAnalysis, results.ProbeAnalysis, results.LeverageAnalysis, results.RolloutAnalysis, results.DynamicsAnalysis, results.CostAnalysis, results.SelectionAnalysis}
}

// Parse parses a comma-separated list of names, or "all" or "none". It drops repeated
// names.
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

// FilmTiers has the analyses that leave a film or a picture, with what replaces the tier
// in its name.
var FilmTiers = map[string]string{results.DynamicsAnalysis: results.Imagined, results.LeverageAnalysis: results.PairsTier}

// Settings configures the rollout and cost analyses.
type Settings struct {
	Starts, Candidates int    // rollouts: number of starts, and of candidates per start
	Noise              string // rollouts: TorchNoise or OwnNoise
	// Timing is the approximate duration of one measurement of time. No cell depends
	// on it.
	Timing time.Duration
}

// Published returns the settings of the paper.
func Published() Settings {
	return Settings{Starts: 20, Candidates: 64, Noise: TorchNoise, Timing: 2 * time.Second}
}

// Job describes analyses of one checkpoint. The embedded job provides the arm, the
// task and the data.
type Job struct {
	eval.Job
	Settings
	Device     string // kind of the device that the model is loaded on
	Checkpoint string // folder of the checkpoint
	Key        string // of the model in it (model.Open)
	// Films has the path of the film or picture that an analysis writes, by its name. No cell
	// depends on it.
	Films map[string]string
	// Held, if not nil, has the episodes from which the selection draws clips and frames, in
	// place of those that the protocol allows. It is not part of a cell.
	Held []int
}

// measurement is a job whose model has been loaded.
type measurement struct {
	Job
	world model.World
}

// Spec returns the spec of an analysis, whose hash names the cell.
func (j Job) Spec(name string) results.AnalysisSpec {
	a := j.Arm
	s := results.AnalysisSpec{Analysis: name, Protocol: string(j.Protocol), Task: j.Task.Spec.Name,
		Method: a.Method, TrainSeed: a.TrainSeed, Weights: a.Weights, Recipe: a.Recipe.Hash, Q: a.Recipe.Q, LossWeight: a.Recipe.Weight, Backbone: a.Backbone,
		Data: j.Data.Fingerprint, Device: j.Device}
	s.Schema = s.Version()
	// The columns of a declared task state are not implied by the task's name.
	if j.Task.New == nil && len(j.Task.Spec.Qs) > 0 {
		s.QColumns = strings.Join(j.Task.Spec.Qs[0].Parts, ",")
	}
	// The other analyses do not use these settings. Their cells must stay valid if a
	// setting changes.
	if name == results.RolloutAnalysis {
		s.Starts, s.Candidates, s.Noise = j.Starts, j.Candidates, j.Noise
	}
	return s
}

// IDs returns the ids of the cells of analyses.
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

// Load reads the results that the store has, and returns the names of those that are
// missing or torn. A store without a folder has none.
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
			// Times are not part of the cell, and may be absent in a merged folder.
			if store.LoadRun(ids[i], r.Cost.Times) != nil {
				r.Cost.Times = nil
			}
		}
	}
	return r, missing, nil
}

// Run computes the analyses that the store lacks and saves them as cells. It returns
// the results of all names, and the number of new ones. It calls load only if there
// is something to compute. The analyses of latents share one encoding of the sample.
func Run(ctx context.Context, store cell.Store, j Job, names []string, load func() (model.World, error)) (r results.Results, computed int, err error) {
	r, missing, err := j.Load(store, names)
	for _, name := range names {
		if j.Films[name] != "" && !slices.Contains(missing, name) {
			missing = append(missing, name) // computes the film, and the same cell again
		}
	}
	if err != nil || len(missing) == 0 {
		return r, 0, err
	}
	// Each analysis is saved as soon as it is computed, so that an interruption loses
	// only one.
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
		// The times are saved first, since a cell that exists counts as complete.
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

// measure computes one analysis and stores it in r. *shared holds the latents of the
// sample once an analysis has needed them.
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
	case results.SelectionAnalysis:
		r.Selection, err = j.selection(ctx)
		return err
	}
	// The remaining analyses are those of latents.
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
	case results.LeverageAnalysis:
		r.Leverage, err = (*shared).leverage(j.Films[name])
	default:
		r.Probe, err = (*shared).probe()
	}
	return err
}
