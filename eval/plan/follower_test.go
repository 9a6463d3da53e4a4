package plan_test

import (
	"math"
	"slices"
	"testing"

	"scalewm/model/device"
)

// follower is a device that checks its rankings against recorded ones and then
// continues with the recorded ones. PyTorch orders equal costs differently, and when
// a search has converged most costs are equal in float32: after a different choice
// among equal costs the rest of a plan could not be compared.
type follower struct {
	device.Device
	t        *testing.T
	recorded []float64 // elite_index from here on
	other    int       // number of rankings that differed
}

// SmallestK checks that both its own and the recorded ranking are correct.
func (f *follower) SmallestK(idx device.Ints, costs device.Mat, k int) {
	f.t.Helper()
	f.Device.SmallestK(idx, costs, k)
	if f.recorded == nil || k == costs.Cols { // all candidates are elites: nothing is chosen
		return
	}
	ours, all := make([]int32, idx.Len()), values(f.Device, costs)
	f.DownloadInts(ours, idx)
	theirs := make([]int32, len(ours))
	for i := range theirs {
		theirs[i] = int32(f.recorded[i])
	}
	f.recorded = f.recorded[len(ours):]
	for e := range costs.Rows {
		f.compare(ours[e*k:(e+1)*k], theirs[e*k:(e+1)*k], all[e*costs.Cols:(e+1)*costs.Cols])
	}
	f.UploadInts(idx, theirs)
}

func (f *follower) compare(ours, theirs []int32, costs []float64) {
	f.t.Helper()
	if slices.Equal(ours, theirs) {
		return
	}
	f.other++
	for i := range ours {
		a, b := costs[ours[i]], costs[theirs[i]]
		if math.Abs(a-b) > 1e-6*(1+math.Abs(a)) { // a few roundings in float32
			f.t.Errorf("elites %v with %g at rank %d, recorded %v with %g", ours, a, i, theirs, b)
			return
		}
	}
}
