package dataset

import (
	"fmt"
	"math"
	"slices"

	"scalewm/envs"
)

// Published is what is known of a data set on which the paper's models were trained and
// evaluated (docs/sources.md#published-sets).
type Published struct {
	Task           string
	Episodes, Rows int
	// Shortest and Longest are the lengths of episodes in rows.
	Shortest, Longest int
	// Solved is the percentage of the rows with a goal 25 rows later that meet it already,
	// by the task's own rule; NaN if unknown.
	Solved float64
	// Sets maps seeds of evaluation sets to the hashes in the authors' result files.
	Sets    map[int]string
	Figures []Figure
}

// Figure has the published moments and range of a column, or of the task state "q", one
// entry for each of its numbers; a slice is nil, or an entry NaN, if they are unknown.
type Figure struct {
	Of                  string
	Mean, SD, Low, High []float64
}

var unknown = math.NaN()

// publishedSets are the published sets (docs/sources.md#published-sets,
// docs/sources.md#published-moments, docs/sources.md#published-set-hashes). Reacher's and
// Cube's evaluation sets are equal, since their episodes have one length.
var publishedSets = []Published{
	{"pusht", 18_685, 2_336_736, 49, 246, .2230410497156895,
		map[int]string{101: "473b2158c63a", 102: "3e3b004264b5", 103: "8a66e5e08b08", 104: "da6220c4cbcc", 105: "22f3d6262bc4", 106: "910904697e4c"}, []Figure{
			{Of: "action", Mean: []float64{-.007812564379916172, .006860687229453032}, SD: []float64{.20846744284501714, .20674862637362224}},
			{Of: "q", Mean: []float64{228.81253051757812, 292.2305908203125, 243.61253356933594, 275.2507019042969, .39305832982063293, .3244878351688385},
				SD: []float64{103.37361145019531, 98.92550659179688, 71.6178970336914, 73.38178253173828, .598173201084137, .6183865070343018}},
		}},
	{"tworoom", 10_000, 920_809, 31, 101, 8.816518561915537,
		map[int]string{101: "95da656eca13", 102: "96b36b0140be", 103: "a1058b08f894", 104: "3065d6f17edf", 105: "c9aea3b646e3", 106: "94fa5d3ea8f5"}, []Figure{
			{Of: "q", Low: []float64{14.02, 14.02}, High: []float64{208.98, 208.98}},
		}},
	{"pointmaze", 2_000, 200_000, 100, 100, unknown,
		map[int]string{103: "e4c80e2916cd"}, []Figure{
			{Of: "state", SD: []float64{1.0055, .9630, 1.6803, 1.9319}, Low: []float64{.342, .344, unknown, unknown}, High: []float64{3.250, 3.257, unknown, unknown}},
		}},
	{"reacher", 10_000, 2_010_000, 201, 201, .5665340909090909,
		map[int]string{101: "df81932478f0", 102: "167ce9245b6d"}, []Figure{
			{Of: "q", Mean: []float64{-.012981809675693512, -.01007601898163557, .13498295843601227, -.006901165936142206},
				SD: []float64{.7054027915000916, .7086164951324463, .6568182706832886, .7418370842933655}},
			{Of: "qpos", Low: []float64{-8.20, -2.9473536014556885}, High: []float64{7.91, 2.943047046661377}},
			{Of: "finger_pos", Mean: []float64{-.0016333144158124924, -.0020439540967345238}, SD: []float64{.1281508505344391, .1275070160627365}},
		}},
	{"cube", 10_000, 2_010_000, 201, 201, 38.376704545454544,
		map[int]string{101: "df81932478f0", 102: "167ce9245b6d"}, []Figure{
			{Of: "action", Mean: []float64{.010884696617722511, -.003141433000564575, .002646582666784525, .00042392866453155875, .1592525690793991},
				SD: []float64{.28941982984542847, .393716961145401, .6431365013122559, .3928016126155853, .2503073513507843}},
			{Of: "q", Mean: []float64{.42354908574960767, .0010526024165803118, .12662217963116884, -.07248447509879793, -.012944465010692534, .28802017708069666, .4248875924093758, .000516350060585233, .06909717067371587},
				SD: []float64{.06969537584965205, .16072658565987824, .08528987282182963, .694304299769735, .7159053539623107, .25037152565384874, .07239078999158183, .1693934183407699, .082478792118209}},
			{Of: "proprio_gripper_contact", Mean: []float64{.40678}, SD: []float64{.48238}},
			{Of: "proprio_joint_pos", Mean: []float64{-1.8768, -1.5506, 2.09105, -2.10474, -1.5708, -.30124}, SD: []float64{.36467, .21349, .21825, .25963, .0002, 1.75311}},
			{Of: "proprio_joint_vel", Mean: []float64{.00083, .03157, .02675, -.04408, -.00002, .00054}, SD: []float64{.30762, .37591, .38526, .47392, .00431, .51192}},
		}},
}

// PublishedSet returns what is known of the published set of a task. ok is false if there
// is none.
func PublishedSet(task string) (set Published, ok bool) {
	i := slices.IndexFunc(publishedSets, func(p Published) bool { return p.Task == task })
	if i < 0 {
		return Published{}, false
	}
	return publishedSets[i], true
}

// IsPublished reports whether a data set of a task has the numbers of episodes and rows
// of the published set. Push-T's and Two-Room's episodes vary in length, so that hardly
// any other file has them. A full collection of another task has them too.
func IsPublished(task string, episodes, rows int) bool {
	p, ok := PublishedSet(task)
	return ok && p.Episodes == episodes && p.Rows == rows
}

// CountsNote describes a data set that has the counts of the published set, or one of
// them. It is "" if both differ.
func (p Published) CountsNote(episodes, rows int) string {
	switch {
	case episodes == p.Episodes && rows == p.Rows:
		return fmt.Sprintf("%d episodes and %d rows, as the published set of %s", episodes, rows, p.Task)
	case episodes == p.Episodes:
		return fmt.Sprintf("%d episodes, as the published set of %s, but %d rows, not %d", episodes, p.Task, rows, p.Rows)
	case rows == p.Rows:
		return fmt.Sprintf("%d rows, as the published set of %s, but %d episodes, not %d", rows, p.Task, episodes, p.Episodes)
	}
	return ""
}

// Comparison is a quantity of a data set next to that of the published set.
type Comparison struct {
	Quantity   string  `json:"quantity"`
	Here       float64 `json:"here"`
	Published  float64 `json:"published"`
	Difference float64 `json:"difference"`
}

// Compare compares a data set with the published one in everything that is known: counts,
// lengths of episodes and figures. q is the task state that the figures "q" are of. missing
// has a line for each figure whose columns the data set lacks.
func (p Published) Compare(src Source, q envs.Q) (out []Comparison, missing []string, err error) {
	add := func(quantity string, here, published float64) {
		if !math.IsNaN(published) {
			out = append(out, Comparison{quantity, here, published, here - published})
		}
	}
	eps := src.Episodes()
	length := func(a, b Episode) int { return a.Len - b.Len }
	add("episodes", float64(len(eps)), float64(p.Episodes))
	add("rows", float64(src.Rows()), float64(p.Rows))
	add("rows of the shortest episode", float64(slices.MinFunc(eps, length).Len), float64(p.Shortest))
	add("rows of the longest episode", float64(slices.MaxFunc(eps, length).Len), float64(p.Longest))
	add("mean rows of an episode", float64(src.Rows())/float64(len(eps)), float64(p.Rows)/float64(p.Episodes))
	for _, f := range p.Figures {
		rows, names, err := f.read(src, q)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", f.Of, err))
			continue
		}
		m, err := moments(rows, len(names), 0, f.Of)
		if err != nil {
			return nil, nil, err
		}
		low, high := extremes(rows, len(names))
		for d, name := range names {
			for _, x := range []struct {
				what            string
				here, published []float64
			}{{"mean", m.Mean, f.Mean}, {"SD", m.Std, f.SD}, {"least", low, f.Low}, {"greatest", high, f.High}} {
				if x.published != nil {
					add(name+" "+x.what, x.here[d], x.published[d])
				}
			}
		}
	}
	return out, missing, nil
}

// read returns the values that a figure describes, row-major, and the name of each entry of
// a row.
func (f Figure) read(src Source, q envs.Q) (rows []float64, names []string, err error) {
	prefix := "q: "
	if f.Of != "q" {
		prefix = ""
		if _, err := FindColumn(src, f.Of); err != nil {
			return nil, nil, err
		}
		if q, err = parseQ(src, f.Of); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range q.Parts {
		names = append(names, prefix+part)
	}
	for _, v := range [][]float64{f.Mean, f.SD, f.Low, f.High} {
		if v != nil && len(v) != len(names) {
			return nil, nil, fmt.Errorf("it has %d numbers, the published one %d", len(names), len(v))
		}
	}
	rows, err = ReadQ(src, q, 0, src.Rows())
	return rows, names, err
}

// extremes returns the least and the greatest value of each entry of a row. Rows with a NaN
// are dropped.
func extremes(rows []float64, width int) (low, high []float64) {
	for i := 0; i+width <= len(rows); i += width {
		row := rows[i : i+width]
		if hasNaN(row) {
			continue
		}
		if low == nil {
			low, high = slices.Clone(row), slices.Clone(row)
		}
		for d, v := range row {
			low[d], high[d] = min(low[d], v), max(high[d], v)
		}
	}
	return low, high
}
