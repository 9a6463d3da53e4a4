package dataset

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"scalewm/envs"
)

// NoTask is the task name of a data set for which there is no simulated task.
const NoTask = "none"

// OwnTask returns a task for a data set without a simulator, with what training and
// analysis need: the width of its actions and, from its columns, the task state q.
// columns is a list such as "state[0:4],goal[2],angle"; "" means no q. The task has
// no worlds: New is nil.
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

// entry is one number of a row: a column and the index in it.
type entry struct {
	column string
	at     int
}

var columnRange = regexp.MustCompile(`^([^\[\]]+)(?:\[(\d{1,6})(?::(\d{1,6}))?\])?$`)

// CheckColumns returns an error if the syntax of a list of columns is wrong, for any
// data set.
func CheckColumns(columns string) error {
	for text := range strings.SplitSeq(columns, ",") {
		if !columnRange.MatchString(strings.TrimSpace(text)) {
			return fmt.Errorf("the task state q of %q: %q is not a column (hint: as in state[0:4],goal[2],angle)", columns, text)
		}
	}
	return nil
}

// parseQ parses a list of columns. An item is a column, one number of it (goal[2]),
// or a range of numbers (state[0:4]) that excludes its end, as in Python.
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
