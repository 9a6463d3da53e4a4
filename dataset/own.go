package dataset

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"scalewm/envs"
)

// NoTask is the name that stands for a task where a data set is of none that is simulated here.
const NoTask = "none"

// OwnTask is the task of a data set that no simulator is for, as far as learning and
// analysing need one: actions as wide as the data set's, and the task state q of some of
// its columns, as in "state[0:4],goal[2],angle"; "" is no q. It has no worlds: New is nil.
func OwnTask(src Source, columns string) (envs.Task, error) {
	spec := &envs.Spec{Name: NoTask, ID: NoTask, Title: "Own data"}
	action, err := FindColumn(src, "action")
	if err != nil {
		return envs.Task{}, err
	}
	spec.ActionDim, spec.ActionDType = action.Width, action.DType
	if columns != "" {
		q, err := parseQ(src, columns)
		if err != nil {
			return envs.Task{}, err
		}
		spec.Qs = []envs.Q{q}
	}
	return envs.Task{Spec: spec}, nil
}

// entry is a number of a row: which column, and where in it.
type entry struct {
	column string
	at     int
}

var columnRange = regexp.MustCompile(`^([^\[\]]+)(?:\[(\d{1,6})(?::(\d{1,6}))?\])?$`)

// CheckColumns returns an error if a text is no list of columns, whatever the data set.
func CheckColumns(columns string) error {
	for text := range strings.SplitSeq(columns, ",") {
		if !columnRange.MatchString(strings.TrimSpace(text)) {
			return fmt.Errorf("the task state q of %q: %q is no column (hint: as in state[0:4],goal[2],angle)", columns, text)
		}
	}
	return nil
}

// parseQ reads a list of columns: whole ones, one of their numbers, or from one number to
// before another, as Python slices them.
func parseQ(src Source, columns string) (envs.Q, error) {
	q := envs.Q{Name: "full"}
	if err := CheckColumns(columns); err != nil {
		return q, err
	}
	var entries []entry
	for text := range strings.SplitSeq(columns, ",") {
		m := columnRange.FindStringSubmatch(strings.TrimSpace(text))
		c, err := FindColumn(src, m[1])
		if err != nil {
			return q, fmt.Errorf("the task state q of %q: %w", columns, err)
		}
		from, to := 0, c.Width
		if m[2] != "" {
			from, _ = strconv.Atoi(m[2])
			to = from + 1
		}
		if m[3] != "" {
			to, _ = strconv.Atoi(m[3])
		}
		if from >= to || to > c.Width {
			return q, fmt.Errorf("the task state q of %q: %s has the numbers 0 to %d (hint: [from:to] ends before to)", columns, c.Name, c.Width-1)
		}
		q.Columns = append(q.Columns, c.Name)
		for at := from; at < to; at++ {
			name := c.Name
			if c.Width > 1 {
				name = fmt.Sprintf("%s[%d]", c.Name, at)
			}
			entries, q.Parts = append(entries, entry{c.Name, at}), append(q.Parts, name)
		}
	}
	q.Of = func(row envs.Row, dst []float64) {
		for i, e := range entries {
			dst[i] = row[e.column][e.at]
		}
	}
	return q, nil
}
