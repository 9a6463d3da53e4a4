package dataset

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// ridge is a set of ridge regressions between columns of one table, judged on rows
// that they were not fitted to. Rows are divided into folds; each fold is predicted by
// a fit to the others.
type ridge struct {
	folds []ridgeFold
	rows  int
}

// ridgeFold has the rows of a fold, their numbers in the table, and X'X of all other
// rows.
type ridgeFold struct {
	x     *mat.Dense
	rows  []int
	gram  *mat.SymDense
	count int // rows of the other folds
}

// penalties are the ridge's penalties that are tried, in units of the number of rows;
// columns have variance 1. The smallest one lets exact relations come out exact.
var penalties = []float64{1e-4, 1e-2, 1}

// newRidge standardises the columns of x in place (columns without variance become 0)
// and computes the normal equations of every fold. fold has the fold of each row, from
// 0; none may be empty.
func newRidge(x *mat.Dense, fold []int, folds int) *ridge {
	standardize(x)
	rows, cols := x.Dims()
	r := &ridge{folds: make([]ridgeFold, folds), rows: rows}
	for i, f := range fold {
		r.folds[f].rows = append(r.folds[f].rows, i)
	}
	total := mat.NewSymDense(cols, nil)
	for i := range r.folds {
		f := &r.folds[i]
		f.x = mat.NewDense(len(f.rows), cols, nil)
		for to, from := range f.rows {
			f.x.SetRow(to, x.RawRowView(from))
		}
		f.gram = mat.NewSymDense(cols, nil)
		f.gram.SymOuterK(1, f.x.T())
		total.AddSym(total, f.gram)
		f.count = rows - len(f.rows)
	}
	for _, f := range r.folds {
		for i := range cols {
			for j := i; j < cols; j++ {
				f.gram.SetSym(i, j, total.At(i, j)-f.gram.At(i, j))
			}
		}
	}
	return r
}

// standardize gives every column mean 0 and variance 1. A column that varies by less
// than rounding becomes 0.
func standardize(x *mat.Dense) {
	rows, cols := x.Dims()
	for j := range cols {
		var sum, most float64
		for i := range rows {
			sum += x.At(i, j)
			most = max(most, math.Abs(x.At(i, j)))
		}
		mean, squares := sum/float64(rows), 0.
		for i := range rows {
			squares += (x.At(i, j) - mean) * (x.At(i, j) - mean)
		}
		sd := math.Sqrt(squares / float64(rows))
		scale := 1 / sd
		if sd <= 1e-9*most {
			scale = 0
		}
		for i := range rows {
			x.Set(i, j, scale*(x.At(i, j)-mean))
		}
	}
}

// errors predicts the target columns from the features, and returns each row's squared
// error, summed over the targets, under the penalty with the smallest total.
func (r *ridge) errors(features, target []int) []float64 {
	var best []float64
	least := math.Inf(1)
	for _, p := range penalties {
		e, sum := make([]float64, r.rows), 0.
		for _, f := range r.folds {
			sum += f.errors(features, target, p*float64(f.count), e)
		}
		if sum < least {
			best, least = e, sum
		}
	}
	return best
}

// total returns the sum of squares of the columns, which have mean 0.
func (r *ridge) total(columns []int) (s float64) {
	for _, f := range r.folds {
		for i := range f.rows {
			for _, j := range columns {
				s += f.x.At(i, j) * f.x.At(i, j)
			}
		}
	}
	return s
}

// share returns the held-out R2 of the target given the features; 0 if the target does
// not vary.
func (r *ridge) share(features, target []int) float64 {
	all := r.total(target)
	if all == 0 {
		return 0
	}
	return 1 - sum(r.errors(features, target))/all
}

// errors fits the other folds with a penalty, writes the squared errors of this fold's
// rows to dst and returns their sum.
func (f ridgeFold) errors(features, target []int, penalty float64, dst []float64) (sum float64) {
	a := mat.NewSymDense(len(features), nil)
	b := mat.NewDense(len(features), len(target), nil)
	for i, from := range features {
		for j := i; j < len(features); j++ {
			a.SetSym(i, j, f.gram.At(from, features[j]))
		}
		a.SetSym(i, i, a.At(i, i)+penalty)
		for j, to := range target {
			b.Set(i, j, f.gram.At(from, to))
		}
	}
	var (
		factors mat.Cholesky
		w       mat.Dense
	)
	// The penalty makes the matrix positive definite; numbers that overflow do not.
	if !factors.Factorize(a) || factors.SolveTo(&w, b) != nil {
		return math.Inf(1)
	}
	for i, row := range f.rows {
		x, e := f.x.RawRowView(i), 0.
		for j, to := range target {
			y := x[to]
			for k, from := range features {
				y -= x[from] * w.At(k, j)
			}
			e += y * y
		}
		dst[row] = e
		sum += e
	}
	return sum
}
