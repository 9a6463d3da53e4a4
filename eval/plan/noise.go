package plan

import "scalewm/model/device"

// Keyed is counter-based noise: each episode has its own stream, which goes on
// from plan to plan. What an episode draws depends on nothing but its key, its
// replan and the iteration, so that any batch gives the same numbers.
type Keyed struct {
	Device     device.Device
	Keys       []uint64 // one an episode
	Replan     int      // plans made before by these episodes
	Iterations int      // of a plan
}

// Normal fills the rows of episode e with the normals of its stream that
// follow those of all earlier iterations and plans.
func (k Keyed) Normal(dst device.Mat, iteration int) {
	perEpisode := uint64(dst.Len() / len(k.Keys))
	k.Device.Normal(dst, k.Keys, uint64(k.Replan*k.Iterations+iteration)*perEpisode)
}
