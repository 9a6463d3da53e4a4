package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/weights"
)

// On the data set that a checkpoint was trained on there is one scaler. On another one
// strict uses the checkpoint's and paper the data set's, both with a note, and only a
// scaler that is not the data set's changes the cell's id.
func TestWhoseScaler(t *testing.T) {
	data := dataset.Moments{Mean: []float64{0, 1}, Std: []float64{2, 1}}
	other := dataset.Moments{Mean: []float64{0, 1}, Std: []float64{2, 3}}
	for _, c := range []struct {
		name     string
		protocol string
		own      dataset.Moments
		want     dataset.Moments
		note     string // part of it; "": none
		spec     string
	}{
		{"the same data", results.Paper, data, data, "", ""},
		{"the same data", results.Strict, data, data, "", ""},
		{"other data", results.Paper, other, data, "by this data set's, as in the published evaluation", ""},
		{"other data", results.Strict, other, other, "plans are scaled by the checkpoint's", "checkpoint"},
		{"published weights", results.Paper, dataset.Moments{}, data, "does not say how its actions were scaled", ""},
	} {
		j := Job{Task: tworoom(), Data: &Data{Actions: data}, Rules: rules(c.protocol), Sets: []Set{{}}, Arm: Arm{Weights: "w", Actions: c.own}}
		m, _, err := j.scaler()
		must(t, err)
		if note := j.Note(); !sameScaler(m, c.want) || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%s under %s: %+v, %q", c.name, c.protocol, m, note)
		}
		if s := j.Spec(0); s.Actions != c.spec {
			t.Errorf("%s under %s: the cell says %q, want %q", c.name, c.protocol, s.Actions, c.spec)
		}
	}
}

// For a checkpoint of another data set the held-out episodes are unknown: that is an error
// under strict and a note under paper. An untrained model has seen nothing.
func TestOtherData(t *testing.T) {
	here := testJob(t, "T5", 1, "s101").Data.Fingerprint
	for _, c := range []struct {
		data     string
		protocol string
		note     bool
		refused  bool
	}{
		{"", results.Strict, false, false}, {here, results.Strict, false, false}, {"another", results.Strict, true, true},
		{"", results.Paper, false, false}, {here, results.Paper, false, false}, {"another", results.Paper, true, false},
	} {
		j := testJob(t, "T5", 1, "s101")
		j.Protocol, j.Arm.Protocol, j.Arm.Data, j.Arm.Actions = c.protocol, c.protocol, c.data, j.Data.Actions
		if err := j.Check(j.Agent); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "which of these episodes it has seen") {
			t.Errorf("%q under %s: %v", c.data, c.protocol, err)
		}
		if note := j.Note(); (note != "") != c.note {
			t.Errorf("%q under %s: %q", c.data, c.protocol, note)
		}
	}
	if a := ArmOf(&weights.Sidecar{Method: model.Untrained, Data: "x"}); a.Data != "" {
		t.Errorf("an untrained model of data %q", a.Data)
	}
}

// Impossible scalers are errors before anything is planned.
func TestHopelessScalers(t *testing.T) {
	good := testJob(t, "T5", 1, "s101")
	for want, change := range map[string]func(*trial){
		"--protocol strict needs": func(j *trial) {
			j.Protocol, j.Arm.Protocol, j.Arm.Actions = results.Strict, results.Strict, dataset.Moments{}
		},
		"by 3 means and 3 deviations, the task has 2 actions": func(j *trial) {
			j.Protocol, j.Arm.Protocol, j.Arm.Actions = results.Strict, results.Strict, dataset.Moments{Mean: make([]float64, 3), Std: []float64{1, 1, 1}}
		},
		"by 2 means and 1 deviations": func(j *trial) {
			j.Protocol, j.Arm.Protocol, j.Arm.Actions = results.Strict, results.Strict, dataset.Moments{Mean: make([]float64, 2), Std: []float64{1}}
		},
		"action 1 is scaled by mean 0 and deviation -1": func(j *trial) {
			j.Protocol, j.Arm.Protocol, j.Arm.Actions = results.Strict, results.Strict, dataset.Moments{Mean: make([]float64, 2), Std: []float64{1, -1}}
		},
		"action 0 is scaled by mean 0 and deviation +Inf": func(j *trial) { // of the data set itself
			j.Data = &Data{Source: j.Data.Source, Actions: dataset.Moments{Mean: make([]float64, 2), Std: []float64{math.Inf(1), 1}}}
		},
	} {
		j := good
		change(&j)
		if _, err := Run(context.Background(), j.Job, j.Agent); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v; want %q and a hint", err, want)
		}
	}
}

// Planned actions are scaled by the chosen scaler: the same search executed with the
// checkpoint's and with the data set's scaler gives actions that differ by exactly their
// factor and shift. If both scalers are equal, rows do not depend on whether the
// checkpoint records its scaler.
func TestPlansAreScaledBy(t *testing.T) {
	j := testJob(t, "T5", 2, "s101")
	rows := func(j trial) []byte {
		out, err := Run(context.Background(), j.Job, j.Agent)
		must(t, err)
		b, err := json.Marshal([]results.Result{out[0].Result})
		must(t, err)
		return b
	}
	plain := j
	plain.Arm.Actions = dataset.Moments{}
	if !bytes.Equal(rows(j), rows(plain)) {
		t.Error("a checkpoint with the data's scaler gives other rows than one that says none")
	}

	own := dataset.Moments{Mean: []float64{.5, 0}, Std: []float64{2, .25}}
	strict := j
	strict.Protocol, strict.Arm.Protocol, strict.Arm.Actions = results.Strict, results.Strict, own
	other := j
	other.Arm.Actions = own
	for want, job := range map[*dataset.Moments]trial{&own: strict, &j.Data.Actions: other} {
		p, err := newPlanner(t.Context(), &runner{Job: job.Job, agent: job.Agent})
		must(t, err)
		z := []float32{1, -2}
		exact := []float64{want.Mean[0] + want.Std[0], want.Mean[1] - 2*want.Std[1]}
		if got := unscale(p.(*search).actions, z); !slices.EqualFunc(got, exact, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s: %v becomes %v, want %v", job.Protocol, z, got, exact)
		}
	}
}

// ArmOf takes the scaler from the checkpoint, with 1 for actions that never vary. An
// untrained model has no protocol.
func TestArmOf(t *testing.T) {
	a := ArmOf(&weights.Sidecar{Method: "scale", Seed: 7, SHA256: "ab", Protocol: "strict", ActionMean: []float64{1, 2}, ActionStd: []float64{0, 3}})
	if a.Method != "scale" || a.TrainSeed != 7 || a.Weights != "ab" || a.Protocol != results.Strict ||
		!sameScaler(a.Actions, dataset.Moments{Mean: []float64{1, 2}, Std: []float64{1, 3}}) {
		t.Errorf("%+v", a)
	}
	if a := ArmOf(&weights.Sidecar{Method: model.Untrained, Protocol: "paper"}); a.Protocol != "" || len(a.Actions.Mean) != 0 {
		t.Errorf("%+v", a)
	}
}
