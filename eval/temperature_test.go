package eval

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
)

// The paper's temperatures (docs/sources.md#mppi-temperature); DINO-WM keeps 0.5 beside
// any that was tuned for LeWM, and a number holds for everyone.
func TestTemperatures(t *testing.T) {
	for _, tc := range []struct {
		text, task, method string
		want               float64
	}{
		{"paper", "pusht", "lewm", 64}, {"paper", "reacher", "scale", 32}, {"paper", "cube", "aux", 32},
		{"paper", "tworoom", "untrained", 64}, {"paper", "pointmaze", "lewm", 256}, {"paper", "pusht", "dinowm", 0.5},
		{"stock", "pusht", "lewm", 0.5}, {"12.5", "cube", "lewm", 12.5}, {"12.5", "cube", "dinowm", 12.5},
	} {
		c, err := ParseTemperature(tc.text)
		must(t, err)
		if got, err := c.For(tc.task, tc.method); err != nil || got != tc.want || c.NeedsTuning() {
			t.Errorf("%s on %s for %s is %g, %v; want %g", tc.text, tc.task, tc.method, got, err, tc.want)
		}
	}
	for _, bad := range []string{"", "0", "-1", "NaN", "Inf", "hot", "1e300"} {
		if c, err := ParseTemperature(bad); err == nil {
			t.Errorf("%q gave %+v", bad, c)
		}
	}
	paper, err := ParseTemperature("paper")
	must(t, err)
	if got, err := paper.For("chess", "lewm"); err != nil || got != 64 {
		t.Errorf("a task without a published temperature: %g, %v; want the median of the five", got, err)
	}
	if !paper.Assumed("chess") || paper.Assumed("cube") {
		t.Error("the temperature on chess is an assumption, that on Cube is the paper's")
	}
	tuned, err := ParseTemperature("tuned")
	must(t, err)
	if _, err := tuned.For("cube", "lewm"); err == nil || !tuned.NeedsTuning() {
		t.Errorf("before tuning: %v", err)
	}
	if dino, err := tuned.For("cube", "dinowm"); err != nil || dino != 0.5 {
		t.Errorf("before tuning, DINO-WM: %g, %v", dino, err)
	}
	tuned = tuned.Chosen(Choice{Temperature: 8})
	if got, err := tuned.For("cube", "scale"); err != nil || got != 8 || tuned.NeedsTuning() {
		t.Errorf("after tuning: %g, %v", got, err)
	}
	if got, _ := paper.Chosen(Choice{Temperature: 8}).For("cube", "lewm"); got != 32 {
		t.Errorf("a choice changed the paper's temperature to %g", got)
	}
}

// TestTune: the choice is the best mean of the ladder's own cells, the lower of
// equals, and is found again without a run and by other arms.
func TestTune(t *testing.T) {
	j := testJob(t, "T5", 3, results.TuningSet)
	ctx, store := context.Background(), cell.Store{Dir: t.TempDir()}
	if _, err := FindChoice(t.Context(), store, j); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before tuning: %v", err)
	}
	c, err := Tune(ctx, store, j)
	must(t, err)
	if !slices.Equal(c.Ladder, []float64{.5, 2, 8, 32, 64, 128, 256, 512}) {
		t.Errorf("ladder %v", c.Ladder)
	}
	best := slices.Max(c.Means)
	if at := slices.Index(c.Means, best); c.Temperature != c.Ladder[at] {
		t.Errorf("chose %g of means %v", c.Temperature, c.Means)
	}
	mean := 0.0
	for _, tier := range Tiers() {
		l := j
		l.Solver, l.Tier, l.Temperature = results.MPPI, tier, 32
		cells, _, err := Cells(ctx, store, l)
		must(t, err)
		mean += cells[0].Result.Rate() / 5
	}
	if d := mean - c.Means[3]; d > 1e-9 || d < -1e-9 {
		t.Errorf("mean at 32 is %g, its cells say %g", c.Means[3], mean)
	}

	ctx, cancel := context.WithCancel(ctx)
	cancel() // nothing is run any more
	if again, err := Tune(ctx, store, j); err != nil || again.Temperature != c.Temperature {
		t.Errorf("again: %+v, %v", again, err)
	}
	j.Arm.Method, j.Arm.Weights = "scale", "other"
	if found, err := FindChoice(t.Context(), store, j); err != nil || found.Temperature != c.Temperature {
		t.Errorf("another arm finds %+v, %v", found, err)
	}
	if _, err := Tune(ctx, store, j); err == nil || !strings.Contains(err.Error(), "lewm") {
		t.Errorf("tuning with another method: %v", err)
	}
	j.Data.Fingerprint = "other data"
	if _, err := FindChoice(t.Context(), store, j); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on other data: %v", err)
	}
}
