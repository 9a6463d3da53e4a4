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

// published holds the temperatures of the paper's tables by task. They were chosen on
// set s101 with the LeWM arm and are shared by the LeWM family
// (docs/sources.md#mppi-temperature). They depend on the scale of the costs, which
// are sums over 192 numbers in the paper's models.
var published = map[string]float64{"pusht": 64, "reacher": 32, "cube": 32, "tworoom": 64, "pointmaze": 256}

// defaultTemperature is the temperature for all other tasks: the median of published.
const defaultTemperature = 64

// Ladder returns the temperatures that tuning tries, in ascending order.
func Ladder() []float64 { return []float64{.5, 2, 8, 32, 64, 128, 256, 512} }

// AssumesTemperature reports whether Temperature returns a default because the paper
// has no temperature for the task.
func AssumesTemperature(r results.Rules, task string) bool {
	return r.Temperature == 0 && published[task] == 0
}

// Temperature returns MPPI's temperature for a method on a task under the given
// rules. Temperatures are shared only within the group of methods whose costs have
// the baseline's scale; a method outside it uses the stock temperature, unless the
// rules give a number. It returns an error if the rules call for a tuned temperature:
// the caller resolves that with Tune or FindChoice first.
func Temperature(r results.Rules, task, method string) (float64, error) {
	switch {
	case r.Temperature > 0:
		return r.Temperature, nil
	case model.MethodOf(method).Group == "":
		return results.StockTemperature, nil
	case r.Temperature == results.Tuned:
		return 0, fmt.Errorf("the temperature of mppi on %s is not tuned yet (hint: evaluate the %s checkpoint with --temperature tuned into the same folder first)", task, model.Baseline)
	}
	return cmp.Or(published[task], defaultTemperature), nil
}

// choiceKind is the cell kind of a Choice.
const choiceKind = "temperature"

// Choice is a tuned temperature, which all arms of the LeWM family share.
type Choice struct {
	Temperature float64   `json:"temperature"`
	Ladder      []float64 `json:"ladder"`
	Means       []float64 `json:"means"`  // success in percent at each temperature, mean of the five tiers
	Device      string    `json:"device"` // device kind of the evaluations
}

// choiceSpec is the spec of a Choice. The ids of the evaluated cells determine it;
// the other fields let FindChoice recognise a choice without the baseline that made
// it.
type choiceSpec struct {
	Protocol  string   `json:"protocol"`
	Task      string   `json:"task"`
	Data      string   `json:"data"`
	Precision string   `json:"precision"`
	Cells     []string `json:"cells"` // ids in the order of Job.tuning
}

// tuning returns the jobs of the ladder: for each temperature in ascending order, the
// baseline on TuningSet at all five tiers.
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

// choice returns the id and spec of the cell for the choice that the job would make.
// It returns an error unless the job is the baseline's on TuningSet.
func (j Job) choice() (id string, s choiceSpec, err error) {
	if j.Arm.Method != model.Baseline || len(j.Sets) != 1 || j.Sets[0].Name != results.TuningSet {
		return "", s, fmt.Errorf("tuning mppi with %s on %d sets: the temperature is chosen with %s on %s (hint: give the checkpoint of %[3]s)", j.Arm.Method, len(j.Sets), model.Baseline, results.TuningSet)
	}
	base := j.Spec(0)
	s = choiceSpec{Protocol: base.Protocol, Task: base.Task, Data: base.Data, Precision: base.Precision}
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

// Tuned loads the choice that Tune saved in the store for this very job. The error
// wraps fs.ErrNotExist if there is none.
func Tuned(store cell.Store, j Job) (c Choice, err error) {
	id, _, err := j.choice()
	if err == nil {
		err = store.Load(id, nil, &c)
	}
	return c, err
}

// FindChoice returns the choice in the store for the job's task, data set, protocol
// and precision, made with any baseline checkpoint. The error wraps fs.ErrNotExist if
// there is none. More than one is an error too: which of them applies is for the user
// to say.
func FindChoice(ctx context.Context, store cell.Store, j Job) (found Choice, err error) {
	want := j.Spec(0)
	n := 0
	err = store.Each(ctx, func(e cell.Entry, err error) error {
		switch {
		// Tune evaluates torn cells again.
		case errors.Is(err, cell.ErrTorn):
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

// Tune chooses MPPI's temperature: the one in Ladder with the highest success of the
// baseline on TuningSet, averaged over the five tiers. Of equal means the lower
// temperature wins. e is an evaluation of the baseline on that set. Its store
// receives the ladder's 40 cells and the choice; it must not be the store of the
// reported results, where the ladder would appear as further results.
//
// Tune resumes: it evaluates only missing cells, and returns an existing choice
// without running anything. A torn choice is rebuilt.
func Tune(ctx context.Context, e Evaluation) (Choice, error) {
	c, err := Tuned(e.Store, e.Job)
	if errors.Is(err, cell.ErrTorn) {
		e.Note(fmt.Sprintf("the temperature chosen on %s is torn; it is tuned again", e.Task.Spec.Name))
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
