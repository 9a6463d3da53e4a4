package dataset

import (
	"fmt"
	"math"
	"slices"

	"scalewm/envs"
)

// stdFloor replaces a standard deviation below it when dividing, as the
// reference's scaler does, so that a constant column maps to zero.
const stdFloor = 1e-8

// Moments are the mean and standard deviation of each entry of a row vector,
// and the number of rows they were taken over.
type Moments struct {
	Mean, Std []float64
	N         int
}

// Scale returns (v - mean) / std of entry d.
func (m Moments) Scale(d int, v float64) float64 {
	return (v - m.Mean[d]) / math.Max(m.Std[d], stdFloor)
}

// ColumnMoments is the mean and standard deviation of a column; rows with a NaN
// are dropped. ddof is subtracted from the count of the variance (0 for the
// scaler of actions, docs/sources.md#action-scaling), and only the named episodes are used (nil:
// all), which is what the strict protocol needs.
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

// QMoments is the mean and unbiased standard deviation (ddof 1) of the
// task-relevant state q over the named episodes (nil: all), as the SCALE
// authors standardise it (docs/sources.md#task-state-q).
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

// ReadQ computes q of rows [from, to), row-major with len(q.Parts) numbers a row.
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

// eachSpan calls f for the whole file at once (episodes nil) or episode by episode.
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

// moments takes two passes in row order, so that the result depends on the
// rows alone.
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
