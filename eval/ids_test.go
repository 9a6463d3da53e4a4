package eval

import (
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/plan"
	"scalewm/eval/results"
)

// Existing cells keep their ids. The expected ids were recorded from an earlier
// version of the program, before Rules existed as one type.
func TestIDsStay(t *testing.T) {
	base := testJob(t, "T5", 2, "s101")
	for _, c := range []struct {
		name, id string
		change   func(j *trial)
	}{
		{"cem", "dc716d753fbeb2651bb6b7db0b6bf3a0", func(j *trial) {}},
		{"icem", "6d761e2219f2b97bfa2ac1d641194ec2", func(j *trial) { j.Solver = results.ICEM }},
		{"icem env", "0453b037431685766ee0abed88218b0c", func(j *trial) { j.Solver, j.Clip = results.ICEM, string(plan.ClipEnv) }},
		{"mppi", "c1f3ac42d6adf891bb9e4876a1cdd369", func(j *trial) { j.Solver, j.Temperature = results.MPPI, 64 }},
		{"gd", "ea0aba14e24dd1ad1b11edc15ed76543", func(j *trial) { j.Solver = results.Descent; j.Tier, _ = j.Tier.For(results.Descent) }},
		{"action clip", "121a0a2cca03f47abba27c86ad7e80c8", func(j *trial) { j.ActionClip = true }},
		{"noise", "b5c0acbec0618279cdf78ee1517935bf", func(j *trial) { j.PlannerNoise = 3 }},
		{"recipe", "1377d17fdf3eed9a3564586bf449cb67", func(j *trial) {
			j.Arm.Recipe.Hash, j.Arm.Recipe.Q, j.Arm.Recipe.Weight, j.Arm.Backbone = "r", "half", .25, "b"
		}},
		{"random", "64259716b081c919cd00ac456287c198", func(j *trial) { j.Arm = Arm{Method: "random"} }},
		{"full pool", "4698b057c721fa9e76587030315f75d4", func(j *trial) {
			j.Data.rules.Pool = results.FullPool
			set, err := j.Data.Set("s101", 2)
			must(t, err)
			j.Sets = []Set{set}
		}},
	} {
		j := base
		data := *base.Data
		j.Data = &data
		c.change(&j)
		id, err := cell.ID(results.Kind, j.Spec(0))
		must(t, err)
		if id != c.id {
			t.Errorf("%s: %s, want %s", c.name, id, c.id)
		}
	}
}
