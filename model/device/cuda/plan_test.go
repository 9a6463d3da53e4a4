package cuda

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"scalewm/model/device"
	"scalewm/model/lewm"
)

// published is the geometry of the published models on Two-Room.
func published() lewm.Config {
	return lewm.Config{ImageSize: 224, Patch: 14, Width: 192, Layers: 12, Heads: 3, MLP: 768, Dim: 192, Projector: 2048,
		PredictorDepth: 6, PredictorHeads: 16, PredictorHeadDim: 64, PredictorMLP: 2048, Dropout: 0.1,
		History: 3, FrameSkip: 5, Smoothed: 10, ActionDim: 2}
}

// tally counts the launches on a Hopper GPU without kernels.
type tally struct {
	*recorder
	launches map[Kernel]int
}

func (c *tally) ISA() string { return "sm_90a" }

func (c *tally) count(launches []Launch) {
	for _, l := range launches {
		c.launches[l.Kernel]++
	}
}

func (c *tally) Run(launches []Launch, _ []byte) error {
	c.count(launches)
	return nil
}

func (c *tally) Graph(launches []Launch, _ []byte) (Graph, error) {
	return countedGraph{c, slices.Clone(launches)}, nil
}

type countedGraph struct {
	c        *tally
	launches []Launch
}

func (s countedGraph) Update(int, []byte) error { return nil }
func (s countedGraph) Close() error             { return nil }
func (s countedGraph) Start() error {
	s.c.count(s.launches)
	return nil
}

// planning is CEM of tier T1 on the published geometry: 30 iterations of 300 candidates
// of 5 blocks, 30 elites.
type planning struct {
	d                                       device.Device
	model                                   *lewm.Model
	keys                                    []uint64
	start, goal, mean, std, cand, end, cost device.Mat
	nans                                    device.Mat
	elites                                  device.Ints
}

func newPlanning(t testing.TB, m Machine, episodes int) *planning {
	t.Helper()
	d, err := New(m, device.BF16)
	if err != nil {
		t.Fatal(err)
	}
	model, err := lewm.New(d, published(), 1)
	if err != nil {
		t.Fatal(err)
	}
	c := model.Config()
	rows, width := episodes*300, 5*c.ActionWidth()
	mat := func(rows, cols int) device.Mat { return device.NewMat(d, rows, cols) }
	s := &planning{d: d, model: model, keys: make([]uint64, episodes), start: mat(episodes, c.Dim), goal: mat(episodes, c.Dim),
		mean: mat(episodes, width), std: mat(episodes, width), cand: mat(rows, width),
		end: mat(rows, c.Dim), cost: mat(episodes, 300), nans: mat(episodes, 1), elites: d.AllocInts(episodes * 30)}
	d.Sync()
	return s
}

func (s *planning) run() {
	for e := range s.keys {
		s.keys[e]++
	}
	s.d.Fill(s.mean, 0)
	s.d.Fill(s.std, 1)
	for i := range 30 {
		s.d.Normal(s.cand, s.keys, uint64(i*s.cand.Len()))
		s.d.Candidates(s.cand, s.mean, s.std, s.cand)
		s.model.Rollout(s.end, s.start, s.cand, 5)
		s.d.LatentCost(s.cost, s.end, s.goal, false)
		s.d.NaNToInf(s.cost, s.nans)
		s.d.SmallestK(s.elites, s.cost, 30)
		s.d.Moments(s.mean, s.std, s.cand, s.elites, 30)
		s.d.Submit()
	}
	s.d.Download(make([]float32, s.mean.Len()), s.mean)
}

// TestPlanLaunches bounds the number of launches of a plan. Each waits for its
// predecessor, and 20 ms allow 7,600 launches of 2.6 us.
func TestPlanLaunches(t *testing.T) {
	c := &tally{&recorder{room: 1 << 50}, map[Kernel]int{}}
	s := newPlanning(t, c, 1)
	s.run() // allocates memory
	clear(c.launches)
	s.run()
	total := 0
	for _, k := range slices.Sorted(maps.Keys(c.launches)) {
		t.Logf("%6d %s", c.launches[k], k)
		total += c.launches[k]
	}
	if t.Logf("%6d launches", total); total > 7600 {
		t.Errorf("a plan takes %d launches", total)
	}
}

// BenchmarkPlanHost measures what a plan costs the host: queueing and comparing
// launches.
func BenchmarkPlanHost(b *testing.B) {
	for _, episodes := range []int{1, 100} {
		b.Run(fmt.Sprint(episodes), func(b *testing.B) {
			s := newPlanning(b, &tally{&recorder{room: 1 << 50}, map[Kernel]int{}}, episodes)
			for range 3 {
				s.run()
			}
			for b.Loop() {
				s.run()
			}
		})
	}
}
