package eval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"scalewm/eval/clear"
	"scalewm/eval/results"
	"scalewm/eval/starts"
	"scalewm/eval/success"
)

// Draw draws n starts from the valid starts of episodes with the given lengths, and
// returns them sorted. The published sampling reproduces NumPy's
// default_rng(seed).choice, which drew the published sets. Their generator never
// draws the last valid start; results.FullPool includes it, as the main branch of
// stable-worldmodel does since July 2026 (docs/sources.md#evaluation-sets).
func Draw(lengths []int, n int, seed uint64, r results.Rules) ([]Start, error) {
	t := newTable(lengths)
	return t.draw(t.Valid(r.GoalOffset), n, seed, r)
}

// table numbers the rows of episodes from 0, in the order of the episodes and without
// gaps, so that a draw does not depend on where episodes are in a file.
type table struct {
	starts.Table
	ends []int // ends[i] is the number of rows in episodes 0 to i
}

// newTable returns the table of episodes with the given lengths. The length 0 excludes an
// episode and keeps the indices of the others.
func newTable(lengths []int) table {
	t := table{Table: starts.Table{Lengths: lengths}, ends: make([]int, len(lengths))}
	n := 0
	for i, rows := range lengths {
		n += rows
		t.ends[i] = n
	}
	return t
}

// at returns the start at a row of the table.
func (t table) at(row int) Start {
	e := sort.SearchInts(t.ends, row+1)
	return Start{Trajectory: e, Row: row - t.ends[e] + t.Lengths[e]}
}

// draw draws n of the candidates.
func (t table) draw(candidates []int, n int, seed uint64, r results.Rules) ([]Start, error) {
	full := r.Full()
	rows, err := t.Draw(candidates, starts.Draw{Sampling: full.Sampling, Pool: full.Pool, Seed: seed, N: n})
	if err != nil {
		return nil, fmt.Errorf("starts with a goal %d rows later: %w", r.GoalOffset, err)
	}
	out := make([]Start, len(rows))
	for i, row := range rows {
		out[i] = t.at(row)
		if full.Sampling == results.EpisodeBalanced && i > 0 && out[i] == out[i-1] {
			return nil, fmt.Errorf("an episode has too few of the %d candidates for %d starts (hint: fewer episodes per set, or a larger data set)", len(candidates), n)
		}
	}
	return out, nil
}

// draw draws n starts by the rules: from all rows with a goal in their episode, the split
// and the filters choose candidates, and the sampling draws from these.
func (d *Data) draw(n int, seed uint64) ([]Start, error) {
	r, t := d.rules.Full(), newTable(d.drawLengths())
	candidates := t.Valid(r.GoalOffset)
	lazy := r.Sampling == results.Permutation // draws in an order, so that few starts need to be tested
	f := clear.Filters{Offset: r.GoalOffset, ExcludeSolved: r.Solved == results.Excluded && !lazy, Rule: r.Judge,
		CrossRoom: r.Filters == results.CrossRoom, CleanWindow: r.Filters == results.CrossRoom}
	if f.ExcludeSolved || f.CrossRoom {
		var err error
		if candidates, err = d.filter(t, candidates, f); err != nil {
			return nil, err
		}
	}
	if lazy && r.Solved == results.Excluded {
		return d.firstUnsolved(t, candidates, n, seed)
	}
	return t.draw(candidates, n, seed, r)
}

// filter returns the candidates that pass the filters, which read the columns of their rows.
func (d *Data) filter(t table, candidates []int, f clear.Filters) ([]int, error) {
	rows := make([]int, len(candidates)) // of the file
	for i, c := range candidates {
		rows[i] = d.fileRow(t.at(c))
	}
	slices.Sort(rows)
	kept, err := clear.Filter(d.Source, d.task.Spec.Name, rows, f)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, c := range candidates {
		if _, found := slices.BinarySearch(kept, d.fileRow(t.at(c))); found {
			out = append(out, c)
		}
	}
	return out, nil
}

// firstUnsolved draws n starts that do not meet their goal yet: those would succeed without a
// plan. It draws a permutation of the candidates and takes the first n that are unsolved, so
// that the result depends on the seed and the data alone.
func (d *Data) firstUnsolved(t table, candidates []int, n int, seed uint64) ([]Start, error) {
	solved, done, err := d.solver()
	if err != nil {
		return nil, err
	}
	defer done()
	if d.rules.Full().Pool == results.MinusOnePool {
		candidates = candidates[:max(len(candidates)-1, 0)]
	}
	var out []Start
	for rows := range slices.Chunk(starts.Order(candidates, seed), max(n, 1)) {
		if len(out) == n {
			break
		}
		some := make([]Start, len(rows))
		for i, row := range rows {
			some[i] = t.at(row)
		}
		met, err := solved(some, n-len(out))
		if err != nil {
			return nil, err
		}
		for i, is := range met {
			if !is && len(out) < n {
				out = append(out, some[i])
			}
		}
	}
	if len(out) < n {
		return nil, fmt.Errorf("only %d of %d starts are not solved already, and %d are needed (hint: fewer episodes, or a larger data set)", len(out), len(candidates), n)
	}
	slices.SortFunc(out, func(a, b Start) int { return d.fileRow(a) - d.fileRow(b) })
	return out, nil
}

// solver returns a function that says of starts, in order, whether they meet their goals
// already, until it has found n that do not. The caller calls done.
func (d *Data) solver() (solved func(list []Start, n int) ([]bool, error), done func(), err error) {
	if w := d.outside; w != nil {
		if !w.Judges {
			return nil, nil, fmt.Errorf("the protocol leaves out starts that meet their goal already, and the world says so only after a step (hint: success=, a function success(env, goal), or protocol=\"paper\")")
		}
		return func(list []Start, _ int) ([]bool, error) {
			var out []bool
			for some := range slices.Chunk(list, copiesAtOnce) {
				numbers := make([]int, len(some))
				for i := range numbers {
					numbers[i] = i
				}
				met, err := d.beginWorld(w, numbers, some)
				if err != nil {
					return nil, err
				}
				out = append(out, met...)
			}
			return out, nil
		}, func() {}, nil
	}
	e, err := d.world()
	if err != nil {
		return nil, nil, err
	}
	return func(list []Start, n int) (out []bool, err error) {
		for _, s := range list {
			if n == 0 {
				break
			}
			_, is, err := d.begin(e, s, d.task.Spec.Name, "strict")
			if err != nil {
				return nil, err
			}
			if !is {
				n--
			}
			out = append(out, is)
		}
		return out, nil
	}, func() { e.Close() }, nil
}

// manifestSet returns the starts of a manifest of CLEAR-LeWM. It returns an error if the
// manifest is for another data set and the rules do not accept that, or if its rules are not
// those of the evaluation.
func (d *Data) manifestSet(path string, b []byte) (Set, error) {
	m, err := clear.Parse(b)
	if err != nil {
		return Set{}, err
	}
	task, r := d.task.Spec.Name, d.rules
	for _, c := range []struct {
		differs bool
		what    string
	}{
		{m.Task != task, "is for the task " + m.Task},
		{m.Protocol.GoalOffset != r.GoalOffset, fmt.Sprintf("has goals %d rows ahead", m.Protocol.GoalOffset)},
		{m.Protocol.Budget != r.Budget, fmt.Sprintf("allows %d steps", m.Protocol.Budget)},
		{m.Rule().Normal(task) != r.Judge, "has the success rule: " + cmp.Or(m.Rule().String(), success.Upstream)},
		{m.Swept() != (r.Collision == results.Swept), "has other collisions"},
		{m.AllSubsteps() != (r.Substeps == results.AllSubsteps), "has other physics steps"},
		{(m.StartState == clear.RestStart) != (r.State == results.RestStart), "starts from " + m.StartState},
		{m.History != max(r.History, 1), fmt.Sprintf("gives models a history of %d frames", m.History)},
	} {
		if c.differs {
			return Set{}, fmt.Errorf("its protocol %s %s, unlike --protocol %s (hint: clear-official, clear-moderate-0.8 or clear-strict-0.8; `scalewm protocols` prints them)", m.Protocol.Name, c.what, r.Protocol)
		}
	}
	if len(m.Protocol.Ignored) > 0 {
		return Set{}, fmt.Errorf("its protocol has the unknown key %.80q (hint: a manifest of another version; those of CLEAR-LeWM 0.5 to 0.9 can be read)", m.Protocol.Ignored[0])
	}
	file, ok := d.Source.(interface{ Path() string })
	if !ok {
		return Set{}, errors.New("a manifest needs a data set in an HDF5 file")
	}
	found, err := m.Check(d.Source, file.Path(), false)
	other := err != nil && d.rules.OtherData
	if other {
		found, err = m.Check(d.Source, file.Path(), true)
	}
	if err != nil {
		return Set{}, err
	}
	list := make([]Start, len(found))
	for i, s := range found {
		list[i] = Start{s.Episode, s.Row}
	}
	set := newSet(clear.SetName(path), list)
	set.Manifest, set.Text, set.OtherData = m.SHA256, b, other
	return set, nil
}
