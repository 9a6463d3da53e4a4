package dataset

import (
	"fmt"
	"strings"
)

// QSpec says how the task-relevant state q of a row is computed from raw
// columns. A task's envs.Q has the same fields; this package does not know it.
type QSpec struct {
	Columns []string
	Dim     int // d_q
	Of      func(row map[string][]float64, dst []float64)
}

// FindColumn is the description of a column; the error lists those there are.
func FindColumn(src Source, name string) (Column, error) {
	var have []string
	for _, c := range src.Columns() {
		if c.Name == name {
			return c, nil
		}
		have = append(have, c.Name)
	}
	return Column{}, fmt.Errorf("the data set has no column %q (hint: it has %s)", name, strings.Join(have, ", "))
}

// readQ computes q of rows [from, to), row-major with Dim numbers a row.
func readQ(src Source, q QSpec, from, to int) ([]float64, error) {
	cols := make(map[string][]float64, len(q.Columns))
	for _, name := range q.Columns {
		if _, err := FindColumn(src, name); err != nil {
			return nil, fmt.Errorf("computing q: %w", err)
		}
		v, err := src.Read(name, from, to)
		if err != nil {
			return nil, fmt.Errorf("computing q: %w", err)
		}
		cols[name] = v
	}
	n := to - from
	out := make([]float64, n*q.Dim)
	row := make(map[string][]float64, len(cols))
	for i := range n {
		for name, v := range cols {
			w := len(v) / n
			row[name] = v[i*w : (i+1)*w]
		}
		q.Of(row, out[i*q.Dim:(i+1)*q.Dim])
	}
	return out, nil
}
