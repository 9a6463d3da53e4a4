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

// The paper's temperatures (docs/sources.md#mppi-temperature). DINO-WM has 0.5 even if
// another one was tuned for LeWM; a number applies to every method.
func TestTemperatures(t *testing.T) {
	for _, tc := range []struct {
		text, task, method string
		want               float64
	}{
		{"paper", "pusht", "lewm", 64}, {"paper", "reacher", "scale", 32}, {"paper", "cube", "aux", 32},
		{"paper", "tworoom", "untrained", 64}, {"paper", "pointmaze", "lewm", 256}, {"paper", "pusht", "dinowm", 0.5},
		{"stock", "pusht", "lewm", 0.5}, {"12.5", "cube", "lewm", 12.5}, {"12.5", "cube", "dinowm", 12.5},
	} {
		if got, err := Temperature(temperature(t, tc.text), tc.task, tc.method); err != nil || got != tc.want {
			t.Errorf("%s on %s for %s is %g, %v; want %g", tc.text, tc.task, tc.method, got, err, tc.want)
		}
	}
	for _, bad := range []string{"", "0", "-1", "NaN", "Inf", "hot", "1e300"} {
		var r results.Rules
		if err := setting(t, "temperature").Set(&r, bad); err == nil {
			t.Errorf("%q gave %+v", bad, r)
		}
	}
	paper, tuned := temperature(t, "paper"), temperature(t, "tuned")
	if got, err := Temperature(paper, "chess", "lewm"); err != nil || got != 64 {
		t.Errorf("a task without a published temperature: %g, %v; want the median of the five", got, err)
	}
	if !AssumesTemperature(paper, "chess") || AssumesTemperature(paper, "cube") || AssumesTemperature(tuned, "chess") {
		t.Error("the temperature on chess is an assumption, that on Cube is the paper's")
	}
	if _, err := Temperature(tuned, "cube", "lewm"); err == nil {
		t.Error("before tuning: no error")
	}
	if dino, err := Temperature(tuned, "cube", "dinowm"); err != nil || dino != 0.5 {
		t.Errorf("before tuning, DINO-WM: %g, %v", dino, err)
	}
}

func temperature(t *testing.T, text string) results.Rules {
	t.Helper()
	r := results.Published()
	must(t, setting(t, "temperature").Set(&r, text))
	return r
}

// setting returns the row of results.Settings with a name.
func setting(t *testing.T, name string) results.Setting {
	t.Helper()
	i := slices.IndexFunc(results.Settings, func(s results.Setting) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no setting %s", name)
	}
	return results.Settings[i]
}

// TestTune checks that the choice is the best mean of the ladder's cells, the lower
// temperature of equals, and that it is found again without a run and by other arms.
func TestTune(t *testing.T) {
	j := testJob(t, "T5", 3, results.TuningSet)
	ctx, store := context.Background(), cell.Store{Dir: t.TempDir()}
	if _, err := FindChoice(t.Context(), store, j.Job); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before tuning: %v", err)
	}
	c, err := Tune(ctx, j.evaluation(store))
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
		cells, _, err := l.cells(ctx, store)
		must(t, err)
		mean += cells[0].Result.Rate() / 5
	}
	if d := mean - c.Means[3]; d > 1e-9 || d < -1e-9 {
		t.Errorf("mean at 32 is %g, its cells say %g", c.Means[3], mean)
	}

	ctx, cancel := context.WithCancel(ctx)
	cancel() // nothing is run any more
	if again, err := Tune(ctx, j.evaluation(store)); err != nil || again.Temperature != c.Temperature {
		t.Errorf("again: %+v, %v", again, err)
	}
	j.Arm.Method, j.Arm.Weights = "scale", "other"
	if found, err := FindChoice(t.Context(), store, j.Job); err != nil || found.Temperature != c.Temperature {
		t.Errorf("another arm finds %+v, %v", found, err)
	}
	if _, err := Tune(ctx, j.evaluation(store)); err == nil || !strings.Contains(err.Error(), "lewm") {
		t.Errorf("tuning with another method: %v", err)
	}
	j.Data.Fingerprint = "other data"
	if _, err := FindChoice(t.Context(), store, j.Job); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on other data: %v", err)
	}
}
