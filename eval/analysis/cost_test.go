package analysis

import (
	"testing"
	"time"

	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
)

// Only alignments and the cost of a model with a frozen encoder have a new version, and so
// a new id.
func TestVersions(t *testing.T) {
	j := Job{Job: eval.Job{Data: new(eval.Data), Task: envs.Task{Spec: new(envs.Spec)}}}
	for _, c := range []struct {
		backbone, analysis string
		want               int
	}{{"", results.CostAnalysis, 1}, {"b", results.SpectrumAnalysis, 1}, {"b", results.CostAnalysis, 2}, {"", results.RankAnalysis, 2}} {
		j.Arm.Backbone = c.backbone
		if s := j.Spec(c.analysis); s.Schema != c.want || s.Outdated() {
			t.Errorf("%+v: schema %d", c, s.Schema)
		}
	}
}

// affordable returns as many units of work as fit into the duration, between the
// minimum and all.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		fit            time.Duration
		took           float64
		few, all, want int
	}{
		{2 * time.Second, 0.5, 1, 30, 4},
		{2 * time.Second, 0.01, 1, 30, 30},
		{2 * time.Second, 90, 1, 30, 1},
		{2 * time.Second, 1, 8, 128, 16},
		{0, 1, 8, 128, 8},
		{time.Second, 0, 1, 30, 30},
	} {
		if got := affordable(c.fit, c.took, c.few, c.all); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
