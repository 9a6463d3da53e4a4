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

// Settings of the published measurement of rollouts (docs/sources.md#rollout-quality).
const (
	candidateSeed = 7     // seed of PyTorch's generator
	eliteShare    = 0.1   // share of the candidates that are elites
	scalePairs    = 20000 // pairs for the sampled scale
	// liveSpread is the minimum range of the candidates' distances from the goal for
	// a start to count. If no candidate moves anything, their order is meaningless.
	liveSpread = 1e-9
)

// Sources of the candidates.
const (
	TorchNoise = "torch" // PyTorch's generator, as published; equal for all arms with the same action width
	OwnNoise   = "own"   // package rng
)

// ParseNoise checks the name of a source.
func ParseNoise(s string) (string, error) {
	if s != TorchNoise && s != OwnNoise {
		return "", fmt.Errorf("unknown noise %q (hint: %s, as published, or %s)", s, TorchNoise, OwnNoise)
	}
	return s, nil
}

// startSets has, by task, the evaluation set whose first starts are used. Other tasks
// use s101.
var startSets = map[string]startSet{"pusht": {"s42", 50}, "reacher": {"s42", 250}}

// startSet is an evaluation set and its number of episodes. Both determine the
// starts.
type startSet struct {
	name     string
	episodes int
}

// candidates returns z-scored actions for all starts, starts x n x width.
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

// startsOf returns the set from which the rollouts of a task take their first n
// starts, or an error if the set has fewer. It does not depend on the number of
// evaluated episodes. Under the strict protocol the set is drawn with exactly n
// episodes: the starts of a set are sorted, so that the first n of a larger set would
// not be a random sample.
func startsOf(task, protocol string, n int) (startSet, error) {
	from, ok := startSets[task]
	if !ok {
		from = startSet{eval.SetNames()[0], 100}
	}
	if protocol == results.Strict {
		from.episodes = n
	}
	if n > from.episodes {
		return from, fmt.Errorf("rollouts of %s have at most %d starts, those of its set %s, but %d were requested (hint: --starts %[2]d or fewer, with more --candidates)", task, from.episodes, from.name, n)
	}
	return from, nil
}

// Check returns an error if the settings are not possible for a task.
func (s Settings) Check(task, protocol string) error {
	_, err := startsOf(task, protocol, s.Starts)
	return err
}

// starts returns the first n starts of the task's set.
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

// rollouts executes random candidates from each start in the simulator and compares
// the results with the model's predictions.
func (j measurement) rollouts(ctx context.Context) (*results.Rollout, error) {
	from, err := starts(j.Job.Job, j.Starts)
	if err != nil {
		return nil, err
	}
	// width is W = H*A, the numbers of a candidate. The published candidates are one
	// draw for all starts, so they are drawn before the loop.
	width := j.Horizon * j.world.Info().ActionWidth
	actions := candidates(j.Noise, len(from), j.Candidates, width)
	u, err := eval.NewUnroller(j.Job.Job, j.world)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	m := rolloutSums{Rollout: results.Rollout{Candidates: j.Candidates, Dropped: []results.Dropped{}}}
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

// rolloutSums accumulates the measurements of all starts. The embedded result holds
// sums until result divides them.
type rolloutSums struct {
	results.Rollout
	reached []float32 // latents reached from all starts, including dropped ones, n x width
	width   int
}

// add adds the measurement of one start, or records why it is dropped.
func (m *rolloutSums) add(start int, u eval.Unrolled) {
	if u.Diverged != "" {
		m.Dropped = append(m.Dropped, results.Dropped{Start: start, Reason: "the simulation diverged: " + u.Diverged})
		return
	}
	m.width = len(u.Goal)
	m.reached = append(m.reached, u.Reached...)
	m.Met += u.Met
	n := len(u.Distance)
	// Costs of each candidate by its predicted and by its reached latent, and the
	// mean squared distance between the two latents.
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
	for _, costs := range [][]float64{predicted, encoded} { // Kendall's tau is not defined if all costs are equal
		if slices.Max(costs) == slices.Min(costs) {
			m.Dropped = append(m.Dropped, results.Dropped{Start: start, Reason: "the model tells no two candidates apart"})
			return
		}
	}
	// Three comparisons of two orders: predicted costs with costs of the reached
	// latents, these with physical distances, and predicted costs with physical
	// distances.
	elites := max(int(math.RoundToEven(eliteShare*float64(n))), 2)
	tau := add(&m.Predicted, predicted, encoded, elites)
	add(&m.Encoded, encoded, u.Distance, elites)
	add(&m.Total, predicted, u.Distance, elites)
	m.PerStart = append(m.PerStart, results.PerStart{Start: start, Error: errors, Tau: tau})
}

// add adds the rank statistics of one start to a channel, and returns Kendall's tau.
// first and second hold the candidates' costs by which two orders are compared.
func add(c *results.Channel, first, second []float64, elites int) (tau float64) {
	r := stats.RankMetrics(first, second, elites)
	c.Tau += r.Tau
	c.Regret += r.Regret
	c.EliteRegret += r.EliteRegret
	c.Overlap += r.Overlap
	return r.Tau
}

// result divides the sums by the number of starts.
func (m *rolloutSums) result() (*results.Rollout, error) {
	m.Starts = len(m.PerStart)
	if m.Starts == 0 {
		return nil, fmt.Errorf("measuring rollouts: none of %d starts counts (hint: %s)", len(m.Dropped), m.Dropped[0].Reason)
	}
	// Errors are relative to the scale of the model's own latents, since latents of
	// different models have different scales.
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

// spread returns the mean squared distance of two of the latents z, n x width, in two
// forms: the expectation over all pairs, which is twice the trace of the covariance
// (divisor n-1), and the mean over random pairs.
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

// squared returns the squared Euclidean distance.
func squared(a, b []float32) (sum float64) {
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return sum
}
