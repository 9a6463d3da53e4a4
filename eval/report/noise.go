package report

import (
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/stats"
)

// Sources are the variances of a difference of two methods in one episode at one tier, by what
// they come from. They take episodes that were planned with two draws of the planner's noise.
type Sources struct {
	Task, Solver, Tier, A, B string
	Seeds                    []int // of the trainings
	Episodes                 int   // of each
	stats.Components               // Rest is what is left within an episode, seed and draw
	Interaction              float64
	Noise                    float64
}

// sources has a line for each pair of learned methods, block and tier that was planned with a
// second draw.
func (r *Report) sources(blocks []*Block) (out []Sources) {
	for _, v := range versus(blocks) {
		if infer.MethodOf(v[0]).Floor {
			continue
		}
		for _, b := range blocks {
			twin := r.twin(b)
			if twin == nil {
				continue
			}
			for _, tier := range b.Tiers {
				s := Sources{Task: b.Task, Solver: b.Solver, Tier: tier.Name, A: v[0], B: v[1]}
				if s.split(b, twin) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// twin is the block that differs from b in the draw of the planner's noise alone.
func (r *Report) twin(b *Block) *Block {
	for _, o := range r.Blocks {
		if o.Main == b && slices.Equal(o.Varied, []string{"planner_noise"}) {
			return o
		}
	}
	return nil
}

// split takes the variances of the seeds and episodes that both blocks have.
func (s *Sources) split(first, second *Block) bool {
	var points [2][][][]float64
	var seeds [2][]int
	for i, b := range []*Block{first, second} {
		if b.arms[s.A] == nil || b.arms[s.B] == nil {
			return false
		}
		seeds[i], points[i] = infer.BySeed(b.arms[s.A], b.arms[s.B], s.Tier)
	}
	var common [2][][][]float64
	for i, seed := range seeds[0] {
		if k := slices.Index(seeds[1], seed); k >= 0 {
			s.Seeds = append(s.Seeds, seed)
			common[0], common[1] = append(common[0], points[0][i]), append(common[1], points[1][k])
		}
	}
	if len(s.Seeds) < 2 || len(common[0][0]) < 2 || len(common[0][0]) != len(common[1][0]) || len(common[0][0][0]) != len(common[1][0][0]) || len(common[0][0][0]) < 2 {
		return false
	}
	n := 0
	for i, sets := range common[0] {
		for k, episodes := range sets {
			for e, x := range episodes {
				d := x - common[1][i][k][e]
				s.Noise, n = s.Noise+d*d/2, n+1
			}
		}
	}
	s.Noise /= float64(n)
	s.Episodes = n / len(s.Seeds)
	s.Components = stats.VarianceComponents(common[0])
	s.Interaction = math.Max(0, s.Rest-s.Noise)
	return true
}

// sourceTable shows them as shares.
func (g *Group) sourceTable() Table {
	t := Table{Anchor: "sources", Head: []string{"Comparison", "Task", "Solver", "Tier", "Seeds", "Episodes", "SD, points", "training seed, %", "set, %", "episode, %", "seed by episode, %", "planner, %"},
		Caption: "Where the difference of two methods in one episode comes from: its standard deviation and the shares of its variance, where the same checkpoints planned the same episodes with two draws of the planner's noise."}
	for _, s := range g.Sources {
		parts := []float64{s.Seed, s.Set, s.Episode, s.Interaction, s.Noise}
		all := 0.0
		for _, v := range parts {
			all += v
		}
		row := []Field{words(minus(s.A, s.B)), words(taskName(s.Task)), words(solverNames[s.Solver]), words(s.Tier), whole(len(s.Seeds)), whole(s.Episodes), number(points(math.Sqrt(all)), math.Sqrt(all))}
		for _, v := range parts {
			row = append(row, number(points(100*v/all), 100*v/all))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
