package clear

import (
	"fmt"
	"slices"
	"sort"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
	"scalewm/eval/success"
)

const tworoom = "tworoom"

// Filters choose candidates by the content of their rows. A candidate is a start row,
// whose goal is Offset rows later.
type Filters struct {
	Offset        int
	ExcludeSolved bool // no start that meets its goal by Rule, without hold and route
	Rule          success.Rule
	// CrossRoom and CleanWindow are for Two-Room. CrossRoom: start and goal are in
	// different rooms, and at both the disc is clear of walls. CleanWindow: no recorded
	// step between them goes through a wall.
	CrossRoom, CleanWindow bool
	// MinDifficulty is the smallest distance between start and goal, which Rule measures;
	// 0 for any.
	MinDifficulty float64
}

// Filter returns the candidates that pass the filters. Candidates are ascending row
// indices of src, each with its goal in the same episode. It reads the columns of the
// rule in chunks, and returns an error before that if one is missing.
//
// Distances are computed in float64. CLEAR-LeWM computes them in the column's type, so
// that a start within a float32's precision of a threshold may differ.
func Filter(src dataset.Source, task string, candidates []int, f Filters) ([]int, error) {
	s, err := f.scan(src, task, candidates)
	return s.kept, err
}

// scanned is the result of a scan: what passes, and the numbers of candidates that the
// filters' rule and the upstream rule consider solved.
type scanned struct {
	kept             []int
	solved, upstream int
}

// chunkRows is the number of rows that are read at a time.
const chunkRows = 1 << 16

// scan applies the filters to the candidates.
func (f Filters) scan(src dataset.Source, task string, candidates []int) (s scanned, err error) {
	if task != tworoom && (f.CrossRoom || f.CleanWindow) {
		return s, fmt.Errorf("filtering starts of %s by rooms (hint: only %s has rooms)", task, tworoom)
	}
	if f.MinDifficulty != 0 && !slices.Contains(tasks, task) {
		return s, fmt.Errorf("starts of %s at a smallest distance of %g (hint: CLEAR-LeWM has distances for %v)", task, f.MinDifficulty, tasks)
	}
	columns, err := columnsOf(src, task, f.Rule, success.Rule{})
	if err != nil {
		return s, err
	}
	c := chunk{Filters: f, task: task, floor: disc.Canonical(), now: envs.Row{}, goal: envs.Row{}}
	for len(candidates) > 0 {
		n := max(1, sort.SearchInts(candidates, candidates[0]+chunkRows-f.Offset))
		if err := c.read(src, columns, candidates[0], candidates[n-1]+f.Offset+1); err != nil {
			return s, fmt.Errorf("reading starts of %s: %w", task, err)
		}
		for _, row := range candidates[:n] {
			if err := c.judge(row, &s); err != nil {
				return s, fmt.Errorf("the start at row %d: %w", row, err)
			}
		}
		candidates = candidates[n:]
	}
	return s, nil
}

// chunk is a run of rows, from row first of the file, and the filters for them.
type chunk struct {
	Filters
	task      string
	floor     *disc.Geometry
	first     int
	values    map[string][]float64 // by the names that rules use
	width     map[string]int
	now, goal envs.Row
	// invalid[i] is the number of recorded steps between rows first and first+i that go
	// through a wall, if CleanWindow. Only its differences within an episode have a
	// meaning.
	invalid []int
}

// read reads the rows [from, to).
func (c *chunk) read(src dataset.Source, columns map[string]string, from, to int) error {
	c.first, c.values, c.width = from, map[string][]float64{}, map[string]int{}
	for name, column := range columns {
		v, err := src.Read(column, from, to)
		if err != nil {
			return err
		}
		c.values[name], c.width[name] = v, len(v)/(to-from)
	}
	if c.CleanWindow {
		c.invalid = make([]int, to-from)
		for i := 1; i < len(c.invalid); i++ {
			c.invalid[i] = c.invalid[i-1]
			if !c.floor.Route(c.point(i-1), c.point(i)).Valid {
				c.invalid[i]++
			}
		}
	}
	return nil
}

// point returns the place of Two-Room's agent in row i of the chunk.
func (c *chunk) point(i int) disc.Point {
	return disc.Point(c.values["state"][2*i : 2*i+2])
}

// row points dst to the values of row i of the chunk.
func (c *chunk) row(dst envs.Row, i int) {
	for name, v := range c.values {
		w := c.width[name]
		dst[name] = v[i*w : (i+1)*w]
	}
}

// judge adds a candidate to the result.
func (c *chunk) judge(row int, s *scanned) error {
	i, g := row-c.first, row-c.first+c.Offset
	c.row(c.now, i)
	c.row(c.goal, g)
	solved, err := c.Rule.Met(c.task, c.now, c.goal)
	if err != nil {
		return err
	}
	upstream := solved
	if c.Rule != (success.Rule{}) {
		if upstream, err = (success.Rule{}).Met(c.task, c.now, c.goal); err != nil {
			return err
		}
	}
	if solved {
		s.solved++
	}
	if upstream {
		s.upstream++
	}
	switch {
	case c.ExcludeSolved && solved:
	case c.CrossRoom && !c.crosses(i, g):
	case c.CleanWindow && c.invalid[g] != c.invalid[i]:
	case c.MinDifficulty != 0 && !(success.Distances(c.task, c.now, c.goal)[measure(c.Rule, c.task)] >= c.MinDifficulty):
	default:
		s.kept = append(s.kept, row)
	}
	return nil
}

// crosses reports whether start and goal are in different rooms and clear of walls.
func (c *chunk) crosses(i, g int) bool {
	a, b := c.point(i), c.point(g)
	return c.floor.Side(a)*c.floor.Side(b) < 0 && c.floor.Clear(a) && c.floor.Clear(b)
}
