package plan

import "scalewm/model/device"

// Step is an iteration as it stands on the device; its matrices are valid
// during the call of Trace.
type Step struct {
	Iteration int
	Mean      device.Mat  // E x W, after the iteration; Gradient's stays where it began
	Std       device.Mat  // E x W, after the iteration; Gradient has none
	Costs     device.Mat  // E x C, NaN already +Inf
	Elites    device.Ints // E*K, best first
	Weights   device.Mat  // E x K, of the elites: MPPI only
}

// Record says how one episode's search stands after an iteration.
type Record struct {
	Best, Mean float64 // lowest and mean cost of the candidates
	Elite      float64 // mean cost of the elites
	Scale      float64 // mean over W of the standard deviation
	// Effective is MPPI's effective sample size 1/sum(w^2), else the number of elites.
	Effective float64
}

// Records reads a step back, an entry an episode.
func (s Step) Records(d device.Device) []Record {
	costs, std, weights := values(d, s.Costs), values(d, s.Std), values(d, s.Weights)
	elites := make([]int32, s.Elites.Len())
	d.DownloadInts(elites, s.Elites)
	out := make([]Record, s.Costs.Rows)
	k := len(elites) / len(out)
	for e := range out {
		cost := costs[e*s.Costs.Cols : (e+1)*s.Costs.Cols]
		r := Record{Best: cost[elites[e*k]], Mean: mean(cost), Effective: float64(k)}
		for _, i := range elites[e*k : (e+1)*k] {
			r.Elite += cost[i] / float64(k)
		}
		if s.Std.Given() {
			r.Scale = mean(std[e*s.Std.Cols : (e+1)*s.Std.Cols])
		}
		if s.Weights.Given() {
			squares := 0.0
			for _, w := range weights[e*k : (e+1)*k] {
				squares += w * w
			}
			r.Effective = 1 / squares
		}
		out[e] = r
	}
	return out
}

// values downloads m; nil where it is not given.
func values(d device.Device, m device.Mat) []float64 {
	if !m.Given() {
		return nil
	}
	x := make([]float64, m.Len())
	d.Download64(x, m)
	return x
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
