package starts

import (
	"fmt"
	"slices"

	"scalewm/dataset/rng/numpy"
)

// Ways to draw, and pools to draw from.
const (
	RowUniform      = "row-uniform"      // every candidate is equally likely
	EpisodeBalanced = "episode-balanced" // as many starts from each episode as possible
	EpisodeUniform  = "episode-uniform"  // an episode, then one of its candidates, with replacement
	Permutation     = "permutation"      // the first ones of a permutation of all candidates

	Full     = "full"      // all candidates
	MinusOne = "minus-one" // all but the last one, which the published row-uniform draws never take
)

// Samplings and Pools list the valid values of a Draw.
var (
	Samplings = []string{RowUniform, EpisodeBalanced, EpisodeUniform, Permutation}
	Pools     = []string{Full, MinusOne}
)

// Draw describes how N starts are drawn. The generator is NumPy's default_rng(Seed).
type Draw struct {
	Sampling, Pool string
	Seed           uint64
	N              int
}

// pool returns the candidates of the pool, or an error if N cannot be drawn from them.
func (d Draw) pool(candidates []int) ([]int, error) {
	switch {
	case !slices.Contains(Samplings, d.Sampling):
		return nil, fmt.Errorf("unknown sampling %q (hint: one of %v)", d.Sampling, Samplings)
	case !slices.Contains(Pools, d.Pool):
		return nil, fmt.Errorf("unknown pool %q (hint: one of %v)", d.Pool, Pools)
	case d.Pool == MinusOne && len(candidates) > 0:
		candidates = candidates[:len(candidates)-1]
	}
	if d.N < 1 || d.N > len(candidates) {
		return nil, fmt.Errorf("drawing %d starts from %d candidates (hint: at least 1 episode; fewer episodes, or a larger data set)", d.N, len(candidates))
	}
	return candidates, nil
}

// Draw draws d.N of the candidates, which are ascending row indices, and returns them
// sorted. If EpisodeBalanced runs out of candidates of an episode, it returns one of
// that episode's rows twice, as CLEAR-LeWM does: callers that need distinct starts
// check the result.
func (t Table) Draw(candidates []int, d Draw) ([]int, error) {
	pool, err := d.pool(candidates)
	if err != nil {
		return nil, err
	}
	var rows []int
	switch d.Sampling {
	case Permutation:
		rows = Order(pool, d.Seed)[:d.N]
	case RowUniform:
		rows = pick(pool, numpy.New(d.Seed).Choice(int64(len(pool)), int64(d.N)))
	case EpisodeUniform:
		groups, err := t.groups(pool)
		if err != nil {
			return nil, err
		}
		r := numpy.New(d.Seed)
		for range d.N {
			g := groups[r.Integers(0, int64(len(groups)))]
			rows = append(rows, pool[g.first+int(r.Integers(0, int64(g.count)))])
		}
	default:
		if rows, err = t.balanced(pool, d); err != nil {
			return nil, err
		}
	}
	slices.Sort(rows)
	return rows, nil
}

// Order returns a permutation of the candidates: the order in which starts are taken,
// for callers that check one after another until they have enough. It is
// default_rng(seed).choice of all candidates without replacement.
func Order(candidates []int, seed uint64) []int {
	n := int64(len(candidates))
	return pick(candidates, numpy.New(seed).Choice(n, n))
}

func pick(from []int, indices []int64) []int {
	out := make([]int, len(indices))
	for i, k := range indices {
		out[i] = from[k]
	}
	return out
}

// group is the candidates of one episode: count of them, from index first.
type group struct {
	id           int64
	first, count int
}

// groups returns the groups of the candidates, sorted by id.
func (t Table) groups(candidates []int) ([]group, error) {
	var groups []group
	at, i := map[int64]int{}, 0
	err := t.each(candidates, func(_ int, id int64) {
		g, ok := at[id]
		if !ok {
			g = len(groups)
			at[id] = g
			groups = append(groups, group{id: id, first: i})
		}
		groups[g].count++
		i++
	})
	slices.SortFunc(groups, func(a, b group) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return groups, err
}

// balanced draws episodes first and then one of the unused candidates of each. If more
// starts than episodes are needed, every episode is taken in complete permutations, and
// the rest is drawn. Source: clear_lewm/datasets.py, sample_rows, at ab8849c.
func (t Table) balanced(candidates []int, d Draw) ([]int, error) {
	groups, err := t.groups(candidates)
	if err != nil {
		return nil, err
	}
	r, n := numpy.New(d.Seed), int64(len(groups))
	var order []int64
	if d.N > len(groups) {
		for range d.N / len(groups) {
			order = append(order, r.Permutation(n)...)
		}
	}
	order = append(order, r.Choice(n, int64(d.N-len(order)))...)
	var rows []int
	used := map[int]bool{}
	for _, k := range order {
		g := groups[k]
		all := candidates[g.first : g.first+g.count]
		var unused []int
		for _, row := range all {
			if !used[row] {
				unused = append(unused, row)
			}
		}
		if unused == nil {
			unused = all
		}
		row := unused[r.Integers(0, int64(len(unused)))]
		used[row] = true
		rows = append(rows, row)
	}
	return rows, nil
}
