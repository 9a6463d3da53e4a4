package analysis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/dataset/rng/torch"
	"scalewm/eval"
	"scalewm/eval/stats"
)

// The published measurement of rollouts (docs/sources.md#rollout-quality).
const (
	RolloutStarts     = 20
	RolloutCandidates = 64
	candidateSeed     = 7
	eliteShare        = 0.1
	scalePairs        = 20000
	// liveSpread is what the candidates' distances from the goal must differ by at a
	// start that counts: where nothing can be moved no order is right.
	liveSpread = 1e-9
)

// startSets are the sets whose first starts are taken, by task, and their sizes;
// other tasks take those of s101.
var startSets = map[string]startSet{"pusht": {"s42", 50}, "reacher": {"s42", 250}}

type startSet struct {
	name     string
	episodes int
}

// Channel says how one cost of candidates orders them beside another: means over
// starts.
type Channel struct {
	Tau         float64 `json:"tau"`          // Kendall's tau-b
	Regret      float64 `json:"regret"`       // rank of the first one's choice in the second order: 0 best, 1 worst
	EliteRegret float64 `json:"elite_regret"` // mean rank of the first one's elites
	Overlap     float64 `json:"overlap"`      // share of elites that are elites of both
}

// Rollout says how good the predictions of a model are.
type Rollout struct {
	RollErr     float64   `json:"rollerr"` // squared error of the last latent over Scale
	Tau         float64   `json:"tau"`     // of Predicted
	Starts      int       `json:"starts"`  // that count
	Dropped     []Dropped `json:"dropped"`
	Candidates  int       `json:"candidates"`
	Noise       string    `json:"noise"`       // torch or own: where candidates come from
	Scale       float64   `json:"scale"`       // mean squared distance of two reached latents: 2 tr Cov
	ScaleSample float64   `json:"scale_pairs"` // the same of 20,000 drawn pairs
	Met         int       `json:"met"`         // candidates that met the goal before their end
	// Predicted orders by predicted costs beside those of the reached frames, Encoded by
	// the latter beside the world's distance, Total by predicted costs beside that.
	Predicted Channel    `json:"predicted"`
	Encoded   Channel    `json:"encoded"`
	Total     Channel    `json:"total"`
	PerStart  []PerStart `json:"per_start"`
}

// Dropped is a start without a result.
type Dropped struct {
	Start  int    `json:"start"` // number of the start, from 0
	Reason string `json:"reason"`
}

// PerStart is one start's numbers, which tests pair.
type PerStart struct {
	Start int     `json:"start"`
	Error float64 `json:"error"` // mean squared error of the last latent
	Tau   float64 `json:"tau"`
}

// candidates are z-scored actions for all starts: PyTorch's of seed 7, which all
// arms share, or our own streams.
func candidates(noise string, starts, n, width int) ([]float32, error) {
	out := make([]float32, starts*n*width)
	switch noise {
	case "torch":
		torch.New(candidateSeed).Normal(out)
	case "own":
		r := rng.Stream("rollout candidates", starts, n, width)
		for i := range out {
			out[i] = float32(r.NormFloat64())
		}
	default:
		return nil, fmt.Errorf("unknown noise %q (hint: torch, as published, or own)", noise)
	}
	return out, nil
}

// starts are the published ones: the first n of a set that does not depend on how
// many episodes are evaluated. Data that have too few for the set give what they have.
func starts(j eval.Job, n int) ([]eval.Start, error) {
	from, ok := startSets[j.Task.Spec.Name]
	if !ok {
		from = startSet{"s101", 100}
	}
	if j.Protocol == dataset.Strict { // starts are drawn one after another and sorted at last
		from.episodes = n
	}
	set, err := j.Data.Set(from.name, from.episodes)
	if err != nil {
		return nil, fmt.Errorf("the starts of rollouts: %w", err)
	}
	return set.Starts[:min(n, len(set.Starts))], nil
}

// MeasureRollouts executes random candidates from each start in the simulator and
// predicts the same.
func MeasureRollouts(ctx context.Context, j eval.Job, nStarts, nCandidates int, noise string) (Rollout, error) {
	out := Rollout{Candidates: nCandidates, Noise: noise, Dropped: []Dropped{}}
	from, err := starts(j, nStarts)
	if err != nil {
		return out, err
	}
	width := eval.Horizon * j.Arm.World.Info().ActionWidth
	actions, err := candidates(noise, len(from), nCandidates, width)
	if err != nil {
		return out, err
	}
	u, err := eval.NewUnroller(j)
	if err != nil {
		return out, err
	}
	defer u.Close()
	m := measured{Rollout: out}
	for i, s := range from {
		one, err := u.Unroll(ctx, s, actions[i*nCandidates*width:(i+1)*nCandidates*width])
		if err != nil {
			return out, err
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
	Rollout
	reached []float32 // latents of all starts, those that are dropped included
	width   int
}

// add takes the measurement of one start.
func (m *measured) add(start int, u eval.Unrolled) {
	if u.Diverged != "" {
		m.Dropped = append(m.Dropped, Dropped{start, "the simulation diverged: " + u.Diverged})
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
		m.Dropped = append(m.Dropped, Dropped{start, fmt.Sprintf("all candidates end equally far from the goal (they differ by %.2g)", spread)})
		return
	}
	elites := max(int(math.RoundToEven(eliteShare*float64(n))), 2)
	tau := m.Predicted.add(predicted, encoded, elites)
	m.Encoded.add(encoded, u.Distance, elites)
	m.Total.add(predicted, u.Distance, elites)
	m.PerStart = append(m.PerStart, PerStart{start, errors, tau})
}

func (c *Channel) add(first, second []float64, elites int) (tau float64) {
	r := stats.RankMetrics(first, second, elites)
	c.Tau += r.Tau
	c.Regret += r.Regret
	c.EliteRegret += r.EliteRegret
	c.Overlap += r.Overlap
	return r.Tau
}

// result turns sums into means.
func (m *measured) result() (Rollout, error) {
	m.Starts = len(m.PerStart)
	if m.Starts == 0 {
		return m.Rollout, fmt.Errorf("measuring rollouts: none of %d starts counts (hint: %s)", len(m.Dropped), m.Dropped[0].Reason)
	}
	m.Scale, m.ScaleSample = spread(m.reached, m.width, rng.Stream("rollout scale"))
	if !(m.Scale > 0) {
		return m.Rollout, fmt.Errorf("measuring rollouts: all frames have the same latent (hint: the model has collapsed)")
	}
	n := float64(m.Starts)
	for _, c := range []*Channel{&m.Predicted, &m.Encoded, &m.Total} {
		c.Tau, c.Regret, c.EliteRegret, c.Overlap = c.Tau/n, c.Regret/n, c.EliteRegret/n, c.Overlap/n
	}
	for _, s := range m.PerStart {
		m.RollErr += s.Error / m.Scale / n
	}
	m.Tau = m.Predicted.Tau
	return m.Rollout, nil
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
