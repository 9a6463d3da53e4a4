package plan

import (
	"fmt"

	"scalewm/model/device"
)

// search is the scratch that sampling solvers share: candidates, their costs
// and the best of them.
type search struct {
	d          device.Device
	p          Problem
	k          int
	arena      *device.Arena
	candidates device.Mat // (E*C) x W
	costs      device.Mat // E x C
	nans       device.Mat // E x 1, counted over all iterations
	elites     device.Ints
}

func newSearch(d device.Device, p Problem, candidates, k int) *search {
	a := device.NewArena(d)
	return &search{
		d: d, p: p, k: k, arena: a,
		candidates: a.Mat(p.Episodes*candidates, p.Width),
		costs:      a.Mat(p.Episodes, candidates),
		nans:       a.Zero(p.Episodes, 1),
		elites:     d.AllocInts(p.Episodes * k),
	}
}

// firstMean is new memory with the mean that the search begins at.
func (s *search) firstMean() device.Mat {
	mean := device.NewMat(s.d, s.p.Episodes, s.p.Width)
	if s.p.Init.Given() {
		s.d.Copy(mean, s.p.Init)
	}
	return mean
}

func (s *search) free() { s.arena.Free() }

// judge fills costs and elites for the present candidates. NaN costs become
// +Inf and are counted by episode, so that an episode's count does not depend
// on who is planned beside it.
func (s *search) judge(iteration int) error {
	if err := s.p.Cost.Costs(s.costs, s.candidates); err != nil {
		return fmt.Errorf("judging the candidates of iteration %d: %w", iteration, err)
	}
	for e := range s.p.Episodes {
		s.d.NaNToInf(s.costs.RowRange(e, 1), s.nans.RowRange(e, 1))
	}
	s.d.SmallestK(s.elites, s.costs, s.k)
	return nil
}

// eliteCosts is the mean cost of each episode's elites.
func (s *search) eliteCosts() []float64 {
	costs := make([]float64, s.costs.Len())
	s.d.Download64(costs, s.costs)
	idx := make([]int32, s.elites.Len())
	s.d.DownloadInts(idx, s.elites)
	out := make([]float64, s.p.Episodes)
	for e := range out {
		sum := 0.0
		for _, i := range idx[e*s.k : (e+1)*s.k] {
			sum += costs[e*s.costs.Cols+int(i)]
		}
		out[e] = sum / float64(s.k)
	}
	return out
}

func (s *search) nanCounts() []int {
	counts := make([]float64, s.p.Episodes)
	s.d.Download64(counts, s.nans)
	out := make([]int, len(counts))
	for e, n := range counts {
		out[e] = int(n)
	}
	return out
}
