package dataset

import (
	"fmt"
	"math"
	"slices"

	"scalewm/envs"
)

// stdFloor is the smallest standard deviation to divide by, as in the scaler of
// stable-worldmodel, so that a constant column maps to zero.
const stdFloor = 1e-8

// Moments has the mean and standard deviation of each entry of a row vector, and the
// number of rows N they were computed over.
type Moments struct {
	Mean, Std []float64
	N         int
}

// Scale returns the z-score of v, which is entry d of a row.
func (m Moments) Scale(d int, v float64) float64 {
	return (v - m.Mean[d]) / math.Max(m.Std[d], stdFloor)
}

// ColumnMoments returns the mean and standard deviation of a column. Rows with a NaN
// are dropped. The variance is divided by N - ddof; ddof is 0 for the scaler of
// actions (docs/sources.md#action-scaling). Only the given episodes are used, or all
// rows if episodes is nil.
func ColumnMoments(src Source, column string, episodes []int, ddof int) (Moments, error) {
	c, err := FindColumn(src, column)
	if err != nil {
		return Moments{}, err
	}
	var rows []float64
	err = eachSpan(src, episodes, func(e Episode) error {
		v, err := src.Read(column, e.Offset, e.Offset+e.Len)
		rows = append(rows, v...)
		return err
	})
	if err != nil {
		return Moments{}, err
	}
	return moments(rows, c.Width, ddof, column)
}

// QMoments returns the mean and unbiased standard deviation (ddof 1) of the task
// state q over the given episodes (nil: all rows), as the authors of SCALE
// standardise it (docs/sources.md#task-state-q).
func QMoments(src Source, q envs.Q, episodes []int) (Moments, error) {
	var rows []float64
	err := eachSpan(src, episodes, func(e Episode) error {
		v, err := ReadQ(src, q, e.Offset, e.Offset+e.Len)
		rows = append(rows, v...)
		return err
	})
	if err != nil {
		return Moments{}, err
	}
	return moments(rows, len(q.Parts), 1, "q")
}

// ReadQ returns the task state q of rows [from, to), row-major with len(q.Parts)
// numbers per row.
func ReadQ(src Source, q envs.Q, from, to int) ([]float64, error) {
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
	width := len(q.Parts)
	out := make([]float64, n*width)
	row := make(envs.Row, len(cols))
	for i := range n {
		for name, v := range cols {
			w := len(v) / n
			row[name] = v[i*w : (i+1)*w]
		}
		q.Of(row, out[i*width:(i+1)*width])
	}
	return out, nil
}

// eachSpan calls f for each of the given episodes, or once for all rows of the file
// if episodes is nil.
func eachSpan(src Source, episodes []int, f func(Episode) error) error {
	if episodes == nil {
		return f(Episode{Len: src.Rows()})
	}
	eps := src.Episodes()
	for _, i := range episodes {
		if err := f(eps[i]); err != nil {
			return err
		}
	}
	return nil
}

// moments computes mean and standard deviation in two passes, both in row order. The
// result depends on the rows alone, and subtracting the mean first avoids the
// cancellation of E[x^2] - E[x]^2.
func moments(rows []float64, width, ddof int, what string) (Moments, error) {
	m := Moments{Mean: make([]float64, width), Std: make([]float64, width)}
	each := func(f func(row []float64)) {
		for i := 0; i+width <= len(rows); i += width {
			if row := rows[i : i+width]; !hasNaN(row) {
				f(row)
			}
		}
	}
	each(func(row []float64) {
		m.N++
		for d, v := range row {
			m.Mean[d] += v
		}
	})
	if m.N <= ddof {
		return m, fmt.Errorf("statistics of %s: %d rows without NaN are too few (hint: is this the right file?)", what, m.N)
	}
	for d := range m.Mean {
		m.Mean[d] /= float64(m.N)
	}
	each(func(row []float64) {
		for d, v := range row {
			m.Std[d] += (v - m.Mean[d]) * (v - m.Mean[d])
		}
	})
	for d := range m.Std {
		m.Std[d] = math.Sqrt(m.Std[d] / float64(m.N-ddof))
	}
	return m, nil
}

func hasNaN(row []float64) bool { return slices.ContainsFunc(row, math.IsNaN) }
