package analysis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"scalewm/dataset/rng"
	"scalewm/dataset/rng/torch"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// The published measurement of rollouts (docs/sources.md#rollout-quality).
const (
	candidateSeed = 7
	eliteShare    = 0.1
	scalePairs    = 20000
	// liveSpread is what the candidates' distances from the goal must differ by at a
	// start that counts: where nothing can be moved no order is right.
	liveSpread = 1e-9
)

// Where candidates come from.
const (
	TorchNoise = "torch" // PyTorch's generator, as published: the same for all arms of a width
	OwnNoise   = "own"   // our streams
)

// ParseNoise reads one of their names.
func ParseNoise(s string) (string, error) {
	if s != TorchNoise && s != OwnNoise {
		return "", fmt.Errorf("unknown noise %q (hint: %s, as published, or %s)", s, TorchNoise, OwnNoise)
	}
	return s, nil
}

// startSets are the sets whose first starts are taken, by task, and their sizes;
// other tasks take those of s101.
var startSets = map[string]startSet{"pusht": {"s42", 50}, "reacher": {"s42", 250}}

type startSet struct {
	name     string
	episodes int
}

// candidates are z-scored actions for all starts.
func candidates(noise string, starts, n, width int) []float32 {
	out := make([]float32, starts*n*width)
	if noise == TorchNoise {
		torch.New(candidateSeed).Normal(out)
		return out
	}
	r := rng.Stream("rollout candidates", starts, n, width)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// startsOf is the set that a task's rollouts start from, of which they take the first n; an
// error where it has fewer. It does not depend on how many episodes are evaluated. Under
// strict it is drawn as large as it is wanted, since its starts are sorted at last.
func startsOf(task, protocol string, n int) (startSet, error) {
	from, ok := startSets[task]
	if !ok {
		from = startSet{eval.SetNames()[0], 100}
	}
	if protocol == results.Strict {
		from.episodes = n
	}
	if n > from.episodes {
		return from, fmt.Errorf("rollouts of %s have at most %d starts, those of its set %s, and %d are asked for (hint: --starts %[2]d or fewer, with more --candidates)", task, from.episodes, from.name, n)
	}
	return from, nil
}

// Check refuses what no rollouts of a task can be measured by.
func (s Settings) Check(task, protocol string) error {
	_, err := startsOf(task, protocol, s.Starts)
	return err
}

// starts are the published ones, the first n of their set.
func starts(j eval.Job, n int) ([]eval.Start, error) {
	from, err := startsOf(j.Task.Spec.Name, j.Protocol, n)
	if err != nil {
		return nil, err
	}
	set, err := j.Data.Set(from.name, from.episodes)
	if err != nil {
		return nil, fmt.Errorf("the starts of rollouts: %w", err)
	}
	return set.Starts[:n], nil
}

// rollouts executes random candidates from each start in the simulator and predicts
// the same.
func (j measurement) rollouts(ctx context.Context) (*results.Rollout, error) {
	from, err := starts(j.Job.Job, j.Starts)
	if err != nil {
		return nil, err
	}
	width := j.Horizon * j.world.Info().ActionWidth
	actions := candidates(j.Noise, len(from), j.Candidates, width)
	u, err := eval.NewUnroller(j.Job.Job, j.world)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	m := measured{Rollout: results.Rollout{Candidates: j.Candidates, Dropped: []results.Dropped{}}}
	for i, s := range from {
		one, err := u.Unroll(ctx, s, actions[i*j.Candidates*width:(i+1)*j.Candidates*width])
		if err != nil {
			return nil, err
		}
		m.add(i, one)
		if j.Progress != nil {
			j.Progress(int64(i+1), int64(len(from)), "starts")
		}
	}
	return m.result()
}

// measured gathers starts.
type measured struct {
	results.Rollout
	reached []float32 // latents of all starts, those that are dropped included
	width   int
}

// add takes the measurement of one start.
func (m *measured) add(start int, u eval.Unrolled) {
	if u.Diverged != "" {
		m.Dropped = append(m.Dropped, results.Dropped{Start: start, Reason: "the simulation diverged: " + u.Diverged})
		return
	}
	m.width = len(u.Goal)
	m.reached = append(m.reached, u.Reached...)
	m.Met += u.Met
	n := len(u.Distance)
	predicted, encoded, errors := make([]float64, n), make([]float64, n), 0.0
	for i := range n {
		p, r := u.Predicted[i*m.width:(i+1)*m.width], u.Reached[i*m.width:(i+1)*m.width]
		predicted[i], encoded[i] = squared(p, u.Goal), squared(r, u.Goal)
		errors += squared(p, r) / float64(n)
	}
	if spread := slices.Max(u.Distance) - slices.Min(u.Distance); spread <= liveSpread {
		m.Dropped = append(m.Dropped, results.Dropped{Start: start, Reason: fmt.Sprintf("all candidates end equally far from the goal (they differ by %.2g)", spread)})
		return
	}
	for _, costs := range [][]float64{predicted, encoded} { // orders of nothing but ties have no correlation
		if slices.Max(costs) == slices.Min(costs) {
			m.Dropped = append(m.Dropped, results.Dropped{Start: start, Reason: "the model tells no two candidates apart"})
			return
		}
	}
	elites := max(int(math.RoundToEven(eliteShare*float64(n))), 2)
	tau := add(&m.Predicted, predicted, encoded, elites)
	add(&m.Encoded, encoded, u.Distance, elites)
	add(&m.Total, predicted, u.Distance, elites)
	m.PerStart = append(m.PerStart, results.PerStart{Start: start, Error: errors, Tau: tau})
}

// add adds one start to a channel.
func add(c *results.Channel, first, second []float64, elites int) (tau float64) {
	r := stats.RankMetrics(first, second, elites)
	c.Tau += r.Tau
	c.Regret += r.Regret
	c.EliteRegret += r.EliteRegret
	c.Overlap += r.Overlap
	return r.Tau
}

// result turns sums into means.
func (m *measured) result() (*results.Rollout, error) {
	m.Starts = len(m.PerStart)
	if m.Starts == 0 {
		return nil, fmt.Errorf("measuring rollouts: none of %d starts counts (hint: %s)", len(m.Dropped), m.Dropped[0].Reason)
	}
	m.Scale, m.ScaleSample = spread(m.reached, m.width, rng.Stream("rollout scale"))
	if !(m.Scale > 0) {
		return nil, fmt.Errorf("measuring rollouts: all frames have the same latent (hint: the model has collapsed)")
	}
	n := float64(m.Starts)
	for _, c := range []*results.Channel{&m.Predicted, &m.Encoded, &m.Total} {
		c.Tau, c.Regret, c.EliteRegret, c.Overlap = c.Tau/n, c.Regret/n, c.EliteRegret/n, c.Overlap/n
	}
	for _, s := range m.PerStart {
		m.RollErr += s.Error / m.Scale / n
	}
	m.Tau = m.Predicted.Tau
	return &m.Rollout, nil
}

// spread is the mean squared distance of two latents: what it is expected to be
// over all pairs, twice the trace of the covariance (divisor n-1), and over drawn ones.
func spread(z []float32, width int, r *rand.Rand) (expected, sampled float64) {
	n := len(z) / width
	for k := range width {
		var sum, squares float64
		for i := range n {
			sum += float64(z[i*width+k])
		}
		mean := sum / float64(n)
		for i := range n {
			squares += (float64(z[i*width+k]) - mean) * (float64(z[i*width+k]) - mean)
		}
		expected += 2 * squares / float64(n-1)
	}
	pairs := 0
	for range scalePairs {
		a, b := r.IntN(n), r.IntN(n)
		if a != b {
			sampled += squared(z[a*width:(a+1)*width], z[b*width:(b+1)*width])
			pairs++
		}
	}
	return expected, sampled / float64(pairs)
}

func squared(a, b []float32) (sum float64) {
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return sum
}
