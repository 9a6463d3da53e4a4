package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
	"scalewm/model"
)

// published are the temperatures of the paper's tables, chosen on set s101 with
// the LeWM arm and shared by the LeWM family (docs/sources.md#mppi-temperature).
var published = map[string]float64{"pusht": 64, "reacher": 32, "cube": 32, "tworoom": 64, "pointmaze": 256}

// publishedElsewhere is used on other tasks: the published ones' median.
const publishedElsewhere = 64

// Ladder are the temperatures that tuning tries.
func Ladder() []float64 { return []float64{.5, 2, 8, 32, 64, 128, 256, 512} }

// AssumesTemperature reports whether the paper has no temperature for a task, so that Temperature
// returns a default.
func AssumesTemperature(r results.Rules, task string) bool {
	return r.Temperature == 0 && published[task] == 0
}

// Temperature is MPPI's by the rules, for a method on a task. A method whose costs have another
// scale than the baseline's has the stock one, unless the rules give a number.
func Temperature(r results.Rules, task, method string) (float64, error) {
	switch {
	case r.Temperature > 0:
		return r.Temperature, nil
	case model.MethodOf(method).Group == "":
		return results.StockTemperature, nil
	case r.Temperature == results.Tuned:
		return 0, fmt.Errorf("the temperature of mppi on %s is not tuned yet (hint: evaluate the %s checkpoint with --temperature tuned into the same folder first)", task, model.Baseline)
	}
	return cmp.Or(published[task], publishedElsewhere), nil
}

// choiceKind is the cell kind of a chosen temperature.
const choiceKind = "temperature"

// Choice is the temperature that all arms of the LeWM family share.
type Choice struct {
	Temperature float64   `json:"temperature"`
	Ladder      []float64 `json:"ladder"`
	Means       []float64 `json:"means"` // success in percent, over the five tiers
	Device      string    `json:"device"`
}

// choiceSpec determines a Choice: the ladder's cells do, and the rest says what
// they are about.
type choiceSpec struct {
	Protocol  string   `json:"protocol"`
	Task      string   `json:"task"`
	Data      string   `json:"data"`
	Precision string   `json:"precision"`
	Cells     []string `json:"cells"` // ids, all tiers of each temperature in turn
}

// tuning lists the ladder's jobs: the baseline on TuningSet, all tiers of each
// temperature in turn.
func (j Job) tuning() []Job {
	j.Solver = results.MPPI
	var out []Job
	for _, t := range Ladder() {
		for _, tier := range Tiers() {
			j.Temperature, j.Tier = t, tier
			out = append(out, j)
		}
	}
	return out
}

// choice is the cell that holds the choice.
func (j Job) choice() (id string, s choiceSpec, err error) {
	if j.Arm.Method != model.Baseline || len(j.Sets) != 1 || j.Sets[0].Name != results.TuningSet {
		return "", s, fmt.Errorf("tuning mppi with %s on %d sets: the temperature is chosen with %s on %s (hint: give the checkpoint of %[3]s)", j.Arm.Method, len(j.Sets), model.Baseline, results.TuningSet)
	}
	about := j.Spec(0)
	s = choiceSpec{Protocol: about.Protocol, Task: about.Task, Data: about.Data, Precision: about.Precision}
	for _, l := range j.tuning() {
		ids, err := l.IDs()
		if err != nil {
			return "", s, err
		}
		s.Cells = append(s.Cells, ids...)
	}
	id, err = cell.ID(choiceKind, s)
	return id, s, err
}

// Tuned reads the choice that Tune left in the store; fs.ErrNotExist where
// there is none.
func Tuned(store cell.Store, j Job) (c Choice, err error) {
	id, _, err := j.choice()
	if err == nil {
		err = store.Load(id, nil, &c)
	}
	return c, err
}

// FindChoice reads the choice in the store that was made for the job's task,
// data, protocol and precision, with whichever baseline; fs.ErrNotExist where
// there is none.
func FindChoice(ctx context.Context, store cell.Store, j Job) (found Choice, err error) {
	want := j.Spec(0)
	n := 0
	err = store.Each(ctx, func(e cell.Entry, err error) error {
		switch {
		case errors.Is(err, cell.ErrTorn): // is made again
			return nil
		case err != nil || e.Kind != choiceKind:
			return err
		}
		var s choiceSpec
		var c Choice
		if err := e.Into(&s, &c); err != nil {
			return err
		}
		if s.Protocol == want.Protocol && s.Task == want.Task && s.Data == want.Data && s.Precision == want.Precision {
			found = c
			n++
		}
		return nil
	})
	if err != nil {
		return Choice{}, err
	}
	switch n {
	case 0:
		return Choice{}, fmt.Errorf("no temperature of mppi was chosen on %s: %w", want.Task, fs.ErrNotExist)
	case 1:
		return found, nil
	}
	return Choice{}, fmt.Errorf("%d temperatures of mppi were chosen on %s with different baselines (hint: give the one you mean as --temperature NUMBER)", n, want.Task)
}

// Tune chooses MPPI's temperature: the one of Ladder with the highest success
// of the baseline on TuningSet, averaged over the five tiers; the lower one of
// equals. The evaluation is the baseline's, with that set; its store, which gets the ladder's cells and the
// choice, is not that of the results. A torn choice is rebuilt.
func Tune(ctx context.Context, e Evaluation) (Choice, error) {
	c, err := Tuned(e.Store, e.Job)
	if errors.Is(err, cell.ErrTorn) {
		e.Note(fmt.Sprintf("the temperature chosen on %s is torn and is chosen again", e.Task.Spec.Name))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	id, spec, err := e.choice()
	if err != nil {
		return Choice{}, err
	}
	c = Choice{Ladder: Ladder(), Means: make([]float64, len(Ladder()))}
	tiers := len(Tiers())
	for i, l := range e.tuning() {
		one := e
		one.Job = l
		o, err := one.Run(ctx)
		if len(o.Failed) > 0 {
			err = o.Failed[0].Err
		}
		if err != nil {
			return Choice{}, fmt.Errorf("tuning mppi at temperature %g, %s: %w", l.Temperature, l.Tier.Name, err)
		}
		c.Means[i/tiers] += o.Cells[0].Result.Rate() / float64(tiers)
		c.Device = o.Cells[0].Result.Device
	}
	c.Temperature = c.Ladder[slices.Index(c.Means, slices.Max(c.Means))]
	return c, e.Store.Save(id, choiceKind, spec, c)
}
