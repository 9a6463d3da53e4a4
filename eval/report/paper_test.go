package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// eightSeeds returns a study as docs/study.md has it, in small: eight seeds of three
// methods on three tasks, with some solvers and two settings of each, and analyses. LeWM
// has an alignment of .1 and SCALE and Aux of .2 and .3, each plus a hundredth of the seed.
func eightSeeds(t *testing.T, solvers ...string) *results.Contents {
	t.Helper()
	c := &results.Contents{Trained: map[string]results.Trained{}}
	for _, task := range []string{"reacher", "tworoom", "pointmaze"} {
		c.Gates = append(c.Gates, results.Gate{Task: task, Data: "data of " + task, Origin: results.OriginCollected, Episodes: 500, Limit: 3})
		for seed := range 8 {
			for i, method := range []string{lewm, scale, aux} {
				weights := fmt.Sprint(task, method, seed)
				c.Trained[weights] = results.Trained{Preset: "nano", Parameters: 712_345, FrameSize: 64, Steps: 1000, Batch: 64, Data: "data of " + task}
				for _, solver := range solvers {
					for noise := range 2 {
						c.Cells = append(c.Cells, resultstest.Cells(t, []plan{p(method, "T1", 3+i, 4+i), p(method, "T3", 2+i, 3+i+seed%2)}, ofSeed(seed, func(s *results.Spec) {
							s.Task, s.Solver, s.Weights, s.PlannerNoise, s.Data = task, solver, weights, noise, "data of "+task
						}))...)
					}
				}
				at := .1*float64(i+1) + .01*float64(seed)
				probe := &results.Probe{N: 1500}
				for _, k := range []int{2, 4, 8, 48} {
					probe.Scores = append(probe.Scores, results.ProbeScore{Probe: "ridge", K: k, Component: "mean", R2: results.Number(at)})
				}
				c.Analyses = append(c.Analyses, results.Analysis{ID: weights, Spec: results.AnalysisSpec{Analysis: "rank", Protocol: "paper", Task: task, Method: method, TrainSeed: seed, Weights: weights, Device: "cpu", Data: "data of " + task},
					Results: results.Results{Rank: []results.Rank{{Spearman: results.Number(at)}, {Q: "half", Spearman: results.Number(at)}}, Probe: probe, Rollout: &results.Rollout{RollErr: at, Tau: at, Starts: 20, Candidates: 64}}})
			}
		}
	}
	for i := range c.Cells {
		c.Cells[i].ID = fmt.Sprintf("cell-%d", i)
	}
	return c
}

// Of several seeds each table next to the paper has one row of ours and one of the paper
// for each method. LeWM's alignment is the mean of .10, ..., .17, which is .135, and its
// standard deviation .01 √6. The change of SCALE's error is the mean of those by seed.
func TestBesideThePaper(t *testing.T) {
	r := reportOf(t, eightSeeds(t, results.CEM))
	for _, table := range []doc.Table{r.crossTable(r.Groups[0]), r.alignmentTable()} {
		if len(table.Rows) != 3*2 {
			t.Errorf("%s has %d rows, want ours and the paper's of three methods", table.Anchor, len(table.Rows))
		}
	}
	if rows := r.rolloutOverTasks().Rows; len(rows) != 2*3*2 {
		t.Errorf("%d rows of rollouts, want two measures of three methods", len(rows))
	}
	change := 0.0
	for seed := range 8 {
		change += 100 * ((.2+.01*float64(seed))/(.1+.01*float64(seed)) - 1) / 8
	}
	has(t, markdown(r.alignmentTable()), "| Method | Source | Reacher | Two-Room | PointMaze |", fmt.Sprintf("| LeWM | ours | 0.14 ± %.2f |", .01*math.Sqrt(6)), "| LeWM | paper | 0.18 | 0.41 | 0.52 |")
	has(t, markdown(r.rolloutOverTasks()), fmt.Sprintf("| Rollout error | SCALE | ours | 0.2350 ± 0.0245 (+%.1f %%) |", change), "| Kendall's τ | SCALE | paper | **0.6435 (+3.2 %)** | **0.6210 (+14.0 %)** | **0.1675 (Δ +0.170)** |")
	// The paper's numbers are those of the full state.
	for _, s := range r.checkpoints("reacher") {
		for _, part := range s.Parts {
			if table, is := part.(doc.Table); is && strings.HasSuffix(table.Anchor, "-alignment") {
				if text := markdown(table); strings.Contains(text, "paper") || !strings.Contains(text, "| LeWM, 8 seeds | half | 0.135 ± 0.024 |") {
					t.Errorf("alignment with other states:\n%s", text)
				}
			}
		}
	}
}

// The first screen and the claims say what was trained: equal trainings once, and what is
// unknown. The paper's numbers are those of docs/sources.md#published-sets.
func TestTrainings(t *testing.T) {
	c := eightSeeds(t, results.CEM)
	for _, g := range []int{0, 1} { // Reacher and Two-Room
		c.Gates[g].Episodes = 150
	}
	for weights, x := range c.Trained {
		if strings.HasPrefix(weights, "pointmazeaux") {
			x.Preset, x.Parameters = "", 0
			c.Trained[weights] = x
		}
		if strings.HasPrefix(weights, "pointmazescale") {
			delete(c.Trained, weights)
		}
	}
	r := reportOf(t, c)
	for _, part := range [][]doc.Part{r.front()[0].Parts, r.claims()[0].Parts} {
		has(t, markdown(part...),
			"- **Trained on Reacher and Two-Room**: LeWM, SCALE and Aux: preset nano, 64 px, 0.7 M parameters, 1,000 steps, 150 episodes collected here, 8 training seeds\n",
			"- **Trained on PointMaze**: LeWM: preset nano, 64 px, 0.7 M parameters, 1,000 steps, 500 episodes collected here, 8 training seeds\n",
			"- **Trained on PointMaze**: SCALE: the training is not recorded, 8 training seeds\n",
			"- **Trained on PointMaze**: Aux: no built-in preset, 64 px, parameters not recorded, 1,000 steps,",
			"- **The paper**: ViT-Tiny at 224 px, 18 M parameters, 1 training seed; Reacher 127,960 steps, 10,000 episodes; Two-Room 51,380 steps, 10,000 episodes; PointMaze 11,390 steps, 2,000 episodes\n")
	}
}

// Commands name the tasks and methods of the folder, and factors that it does not vary.
func TestCommands(t *testing.T) {
	r := reportOf(t, eightSeeds(t, results.CEM))
	r.Command = func(flags string) string { return "run " + flags }
	has(t, markdown(r.factorGaps()), "- `run --tasks reacher,tworoom,pointmaze --methods lewm,scale,aux --action-clip`", "--methods lewm,scale,aux --protocol strict`")
	has(t, markdown(r.toMake()), "- `run --tasks pusht,reacher,cube,tworoom,pointmaze --methods lewm,scale,aux,dinowm --backbone FILE --")
	if text := markdown(r.factorGaps()); strings.Contains(text, "--planner-noise") {
		t.Errorf("a factor that is varied:\n%s", text)
	}
}

// With another baseline every difference and change of ours is against it. The paper's
// changes stay those against LeWM.
func TestBaseline(t *testing.T) {
	r, err := Of(eightSeeds(t, results.CEM), infer.Options{Baseline: aux})
	if err != nil {
		t.Fatal(err)
	}
	has(t, r.lead(), "LeWM − Aux, with training seeds as the unit: Reacher −")
	has(t, markdown(r.rolloutOverTasks()), "against Aux of the same seed", "| Rollout error | Aux | ours | 0.3350 ± 0.0245 |", "| Rollout error | SCALE | paper | **0.1548 (−14.6 %)** |", "| Rollout error | SCALE | ours | 0.2350 ± 0.0245 (−")
	if len(r.claims()) != 0 || len(r.JSON().Claims) != 0 {
		t.Error("claims about LeWM without LeWM as the baseline")
	}
}
