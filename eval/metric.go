package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/geometry"
	"scalewm/eval/results"
	"scalewm/model"
)

// This file replaces the metric by which a search compares latents (model.Replacement) by
// one that is fitted to frames of training episodes. simulated.go replaces the dynamics.

// fitRows is the number of frames of training episodes to which a metric is fitted, and
// fewFitRows the smallest number.
const (
	fitRows    = 2048
	fewFitRows = 100
)

// trainingRows draws rows of the episodes that a training under the rules may see: all but
// those held out. They are in ascending order.
func (d *Data) trainingRows(n int) []int {
	var all []int
	for i, e := range d.Episodes() {
		if _, held := slices.BinarySearch(d.heldOut, i); held {
			continue
		}
		for row := range e.Len {
			all = append(all, e.Offset+row)
		}
	}
	if len(all) > n {
		drawn := rng.Stream("rows of a metric", d.Fingerprint).Perm(len(all))[:n]
		for i, k := range drawn {
			drawn[i] = all[k]
		}
		all = drawn
		slices.Sort(all)
	}
	return all
}

// scaledQ is a task state and the moments that standardise it.
type scaledQ struct {
	envs.Q
	moments dataset.Moments
}

// readState returns the task state in which distances are measured, the first of the task,
// with its moments over the same episodes. Data.state caches it.
func (d *Data) readState() (scaledQ, error) {
	qs := d.task.Spec.Qs
	if len(qs) == 0 {
		return scaledQ{}, fmt.Errorf("the task %s has no task state q, in which the search would compare candidates with the goal (hint: a task of your own gives Spec.Qs)", d.task.Spec.Name)
	}
	var episodes []int
	if d.heldOut != nil {
		episodes = dataset.TrainEpisodes(d.Fingerprint, len(d.Episodes()))
	}
	m, err := dataset.QMoments(d.Source, qs[0], episodes)
	return scaledQ{qs[0], unitStd(m)}, err
}

// checkReplaced returns an error if the arm's replacement does not fit the task, the data
// set or the model.
func (j Job) checkReplaced(a Agent) error {
	r, info := j.Arm.Replaced, a.Model().Info()
	if r.String() != "" && a.World == nil {
		return fmt.Errorf("%s replaces a component of the search of a world model, and %s is none (hint: give the checkpoint of a world model, such as %s)", r, j.Arm.Method, model.Baseline)
	}
	if r.Metric == model.StateDistance || r.Metric == model.ProbedState {
		if _, err := j.Data.state(); err != nil {
			return err
		}
	}
	if r.Simulator && j.Solver == results.Descent {
		return fmt.Errorf("solver %s needs a gradient, which the simulator does not provide (hint: %s, %s or %s)", results.Descent, results.CEM, results.ICEM, results.MPPI)
	}
	if r.OfLatents() {
		if err := CheckMetric(r, info, len(j.Data.trainingRows(fitRows))); err != nil {
			return err
		}
	}
	if r.Simulator {
		return checkSnapshots(j.Task, j.Rules)
	}
	return nil
}

// CheckMetric returns an error if the latents of a model are too few or too wide for the
// metric of a replacement. rows is the number of rows of training episodes.
func CheckMetric(r model.Replacement, info model.Info, rows int) error {
	width := info.Patches * info.Dim
	need := max(fewFitRows, 2*width)
	if r.Metric != model.WhitenedLatents {
		need = min(need, fitRows)
	}
	switch {
	case r.K > width:
		return fmt.Errorf("%s: the latents have %d numbers (hint: a smaller K)", r, width)
	case r.OfLatents() && min(rows, fitRows) < need:
		return fmt.Errorf("%s is fitted to %d frames of training episodes, but latents of %d numbers need %d (hint: a larger data set; at most %d frames are used)", r, min(rows, fitRows), width, need, fitRows)
	}
	return nil
}

// fitMetric fits the metric of the arm's replacement to latents of training frames. It is
// nil if the arm compares latents as its model does.
func (j Job) fitMetric(ctx context.Context, w model.World) (*geometry.Metric, error) {
	r := j.Arm.Replaced
	if !r.OfLatents() {
		return nil, nil
	}
	rows := j.Data.trainingRows(fitRows)
	x, err := j.Latents(ctx, w, rows)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) { // NaN or infinite
		return nil, errors.New("fitting a metric: the model's latents are not finite (hint: its training diverged, see metrics.jsonl)")
	}
	z := geometry.Samples[float32]{N: len(rows), D: len(x) / len(rows), X: x}
	var m geometry.Metric
	if r.Metric == model.ProbedState {
		q, err := j.scaledState(rows)
		if err == nil {
			m, err = geometry.Readout(z, q)
		}
		return &m, err
	}
	c, err := geometry.Analyse(z)
	switch {
	case err != nil:
	case r.Metric == model.WhitenedLatents:
		m, err = c.Whitening(z)
	default:
		m, err = c.Leading(z, r.K)
	}
	if w.Info().CostMean { // so that MPPI's temperature has the same meaning
		m = m.Averaged()
	}
	return &m, err
}

// scaledState returns the standardised task state of rows.
func (j Job) scaledState(rows []int) (geometry.Samples[float64], error) {
	q, err := j.Data.state()
	if err != nil {
		return geometry.Samples[float64]{}, err
	}
	s := geometry.Samples[float64]{N: len(rows), D: len(q.Parts)}
	for _, row := range rows {
		v, err := dataset.ReadQ(j.Data.Source, q.Q, row, row+1)
		if err != nil {
			return s, err
		}
		for i := range v {
			s.X = append(s.X, q.moments.Scale(i, v[i]))
		}
	}
	return s, nil
}
