package cube

import (
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
)

// TestFramesEqualPlainOnes compares a few frames with a plain renderer's: of a world with the
// initial factors, then of one that draws its factors.
func TestFramesEqualPlainOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	needOpenGL(t, made(t))
	o := envs.Options{}
	for _, f := range factors {
		o[f.Name] = envs.Sample
	}
	r := rand.New(rand.NewPCG(3, 4))
	action := make([]float64, actionDim)
	for _, e := range []*env{made(t), varied(t, o)} {
		must(t, e.Reset(r))
		for range 3 {
			for i := range action {
				action[i] = 2*r.Float64() - 1
			}
			step(t, e, action...)
			envtest.PlainFrame(t, e, e.w.Data, task.Camera)
		}
	}
}
