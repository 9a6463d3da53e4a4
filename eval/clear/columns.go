package clear

import (
	"cmp"
	"fmt"

	"scalewm/dataset"
	"scalewm/eval/success"
)

// source says where the values come from that rules of success read under one name.
// Two-Room's files have the same numbers under several names, of which CLEAR-LeWM reads
// the first.
type source struct {
	width int
	from  []string // columns of a data set that have the values; nil: the one of that name
}

var sources = map[string]map[string]source{
	"tworoom": {"state": {width: 2, from: []string{"proprio", "state", "pos_agent"}}},
	"pusht":   {"state": {width: 7}},
	"reacher": {"qpos": {width: 2}, "finger_pos": {width: 2}},
	"cube":    {"privileged_block_0_pos": {width: 3}, "privileged_block_0_quat": {width: 4}},
}

// columnsOf returns the columns of src that have what rules read, by the names that the
// rules use. It returns an error if src lacks one.
func columnsOf(src dataset.Source, task string, rules ...success.Rule) (map[string]string, error) {
	columns := map[string]string{}
	for _, rule := range rules {
		for _, name := range rule.Columns(task) {
			s := sources[task][name]
			if s.from == nil {
				s.from = []string{name}
			}
			for _, from := range s.from {
				if columns[name] == "" && has(src, from) {
					columns[name] = from
				}
			}
			c, err := dataset.FindColumn(src, cmp.Or(columns[name], name))
			if err == nil && s.width != 0 && c.Width != s.width {
				err = fmt.Errorf("the column %s has %d numbers a row, not %d (hint: is this a data set of %s?)", c.Name, c.Width, s.width, task)
			}
			if err != nil {
				return nil, fmt.Errorf("starts of %s: %w", task, err)
			}
		}
	}
	return columns, nil
}
