package collect

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/envs"

	_ "scalewm/envs/cube"
	_ "scalewm/envs/reacher"
)

// ahead is the number of steps from a start of an evaluation to its goal.
const ahead = 25

// publishedStates are the sets of tasks that MuJoCo simulates. They are slow to draw,
// so the campaign compares only their states, with docs/sources.md#reacher-data and
// docs/sources.md#cube-oracles, and with the published sets where their statistics
// are known.
var publishedStates = []published{
	{"reacher", 10_000, 2_010_000, []figure{
		entry("action", 0, 0, 1/math.Sqrt(3), -1, 1), entry("action", 1, 0, 1/math.Sqrt(3), -1, 1),
		circular("cos shoulder", 0, math.Cos, -.012982, .705403), circular("sin shoulder", 0, math.Sin, -.010076, .708616),
		circular("cos wrist", 1, math.Cos, .134983, .656818), circular("sin wrist", 1, math.Sin, -.006901, .741837),
		entry("qpos", 0, unknown, unknown, -8.20, 7.91), entry("qpos", 1, unknown, unknown, -2.947, 2.947),
		entry("finger_pos", 0, unknown, .128, unknown, unknown), entry("finger_pos", 1, unknown, .1275, unknown, unknown),
	}},
	{"cube", 10_000, 2_010_000, []figure{
		entry("action", 0, unknown, unknown, -1, 1), entry("action", 1, unknown, unknown, -1, 1), entry("action", 2, unknown, unknown, -1, 1),
		entry("action", 3, unknown, unknown, -1, 1), entry("action", 4, unknown, unknown, -1, 1),
		entry("proprio_effector_pos", 0, .4235, .0697, unknown, unknown), entry("proprio_effector_pos", 1, unknown, unknown, unknown, unknown),
		entry("proprio_effector_pos", 2, .1266, .0853, unknown, unknown),
		{"cos 2 yaw", func(row envs.Row) float64 { return math.Cos(2 * row["proprio_effector_yaw"][0]) }, unknown, unknown, unknown, unknown},
		{"sin 2 yaw", func(row envs.Row) float64 { return math.Sin(2 * row["proprio_effector_yaw"][0]) }, unknown, unknown, unknown, unknown},
		entry("proprio_gripper_opening", 0, .2880, .2504, unknown, unknown),
		entry("privileged_block_0_pos", 2, .0691, .0825, unknown, unknown),
	}},
}

func circular(name string, joint int, of func(float64) float64, mean, sd float64) figure {
	return figure{name, func(row envs.Row) float64 { return of(row["qpos"][joint]) }, mean, sd, unknown, unknown}
}

// TestCampaignStates runs the default policy of each task for as many episodes as the
// campaign has. Its output is Markdown.
func TestCampaignStates(t *testing.T) {
	episodes, err := strconv.Atoi(os.Getenv(campaignEnv))
	if err != nil || episodes < 2 {
		t.Skip("campaign: make campaign-collect runs it (minutes)")
	}
	for _, p := range publishedStates {
		t.Run(p.task, func(t *testing.T) {
			task, err := envs.Lookup(p.task)
			if err != nil {
				t.Fatal(err)
			}
			n := episodes
			// Episodes of Reacher cost little, and its deviations need more of them
			// to be known to 3 %.
			if p.task == "reacher" {
				n *= 10
			}
			runs := p.play(t, task, n)
			t.Logf("%d episodes of %d rows each, as the published ones", n, p.rows/p.episodes)
			t.Log("| | mean | published | SD | published | range | published |")
			for _, fig := range p.columns {
				var m tally
				for _, r := range runs {
					for i := range r.rows {
						m.add(fig.of(r.row(task.Spec, i)))
					}
					m.endEpisode()
				}
				fig.compare(t, &m)
			}
			if p.task == "cube" {
				solvedAhead(t, runs)
			}
		})
	}
}

// drawnEpisodes is the number of episodes with frames that the campaign collects of
// tasks that OpenGL draws. An episode of Cube takes a minute in software.
var drawnEpisodes = map[string]int{"reacher": 8, "cube": 2}

// TestCampaignDrawn collects with one worker and with two, and prints the rates.
func TestCampaignDrawn(t *testing.T) {
	if os.Getenv(campaignEnv) == "" {
		t.Skip("campaign: make campaign-collect runs it (minutes)")
	}
	for _, p := range publishedStates {
		t.Run(p.task, func(t *testing.T) {
			one := run{p.task, filepath.Join(t.TempDir(), "1.h5"), drawnEpisodes[p.task], 1}
			two := one
			two.out, two.workers = filepath.Join(t.TempDir(), "2.h5"), 2
			f1, f2 := one.mustRun(t), two.mustRun(t)
			if !bytes.Equal(read(t, one.out), read(t, two.out)) {
				t.Error("the bytes depend on the number of workers")
			}
			t.Logf("processor time of two workers is %.3f of one's; by the clock they are %.2f times as fast",
				f2.processor.Seconds()/f1.processor.Seconds(), f1.clock.Seconds()/f2.clock.Seconds())
			p.rates(t, one.out, f1, f2)
		})
	}
}

// row returns row i of the columns from which figures are computed.
func (e episode) row(s *envs.Spec, i int) envs.Row {
	row := envs.Row{"action": e.columns["action"][i*s.ActionDim : (i+1)*s.ActionDim]}
	for name, v := range e.columns {
		if c, ok := s.Column(name); ok {
			row[name] = v[i*c.Width : (i+1)*c.Width]
		}
	}
	return row
}

// play records episodes without frames.
func (p published) play(t *testing.T, task envs.Task, episodes int) []episode {
	runs := make([]episode, episodes)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			e, err := task.New(nil)
			if err != nil {
				errs[w] = err
				return
			}
			defer e.Close()
			for i := w; i < episodes && errs[w] == nil; i += len(errs) {
				runs[i], errs[w] = playOne(task, e, i)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.rows != p.rows/p.episodes {
			t.Errorf("an episode has %d rows", r.rows)
		}
	}
	return runs
}

// playOne plays an episode with the random streams of a collection.
func playOne(task envs.Task, e envs.Env, i int) (episode, error) {
	ep := episode{columns: map[string][]float64{}}
	name := task.Spec.Policies[0]
	policy, err := task.Policy(name)
	if err != nil {
		return ep, err
	}
	if err := errors.Join(e.Reset(rng.Stream("collect", task.Spec.Name, name, int64(1), i)),
		policy.Reset(e, rng.Stream("collect-policy", task.Spec.Name, name, int64(1), i))); err != nil {
		return ep, err
	}
	w := &worker{job: &Job{task: task}, env: e}
	action := make([]float64, task.Spec.ActionDim)
	for ; ; ep.rows++ {
		for _, name := range []string{"qpos", "finger_pos", "proprio_effector_pos", "proprio_effector_yaw", "proprio_gripper_opening", "privileged_block_0_pos"} {
			if c, ok := task.Spec.Column(name); ok {
				v := make([]float64, c.Width)
				if err := e.Observe(name, v); err != nil {
					return ep, err
				}
				ep.columns[name] = append(ep.columns[name], v...)
			}
		}
		if ep.rows == task.Spec.MaxSteps {
			ep.columns["action"] = append(ep.columns["action"], slices.Repeat([]float64{math.NaN()}, len(action))...)
			ep.rows++
			return ep, nil
		}
		if err := w.act(policy, action); err != nil {
			return ep, err
		}
		ep.columns["action"] = append(ep.columns["action"], action...)
		if _, err := e.Step(action); err != nil {
			return ep, err
		}
	}
}

// compare expects known means within three standard errors and known deviations
// within 3 %.
func (f figure) compare(t *testing.T, m *tally) {
	mean, sd, se := m.moments()
	span := known(f.min)
	if !math.IsNaN(f.max) {
		span += " to " + known(f.max)
	}
	t.Logf("| %s | %.4g ± %.2g | %s | %.4g | %s | %.4g to %.4g | %s |", f.name, mean, se, known(f.mean), sd, known(f.sd), m.low, m.high, span)
	if math.Abs(mean-f.mean) > 3*se || math.Abs(sd/f.sd-1) > 0.03 {
		t.Errorf("%s: mean %g ± %g, published %g; deviation %g, published %g", f.name, mean, se, f.mean, sd, f.sd)
	}
}

// solvedAhead counts the starts at which the cube is where it is 25 steps later.
func solvedAhead(t *testing.T, runs []episode) {
	var m tally
	for _, r := range runs {
		block := r.columns["privileged_block_0_pos"]
		for i := 0; i+3*ahead < len(block); i += 3 {
			a, b := block[i:i+3], block[i+3*ahead:]
			m.add(flag(math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2]) <= 0.04))
		}
		m.endEpisode()
	}
	share, _, se := m.moments()
	t.Logf("of the starts %.3f ± %.3f are solved %d steps later already (published .32 to .38)", share, se, ahead)
	if share < .32 || share > .38 {
		t.Errorf("a share of %.3f", share)
	}
}
