package success

import "math"

// Turn returns the angle between two rotations in degrees. They are quaternions w, x, y, z of
// any length but 0.
func Turn(a, b [4]float64) float64 {
	a, b = unit(a), unit(b)
	dot := 0.0
	for i := range a {
		dot += float64(a[i] * b[i])
	}
	return degrees(2 * math.Acos(min(math.Abs(dot), 1)))
}

// CubeTurn is Turn for a cube whose faces are alike: the least angle to one of the 24 rotations
// that look like b.
func CubeTurn(a, b [4]float64) float64 {
	now, goal := matrix(a), matrix(b)
	// relative = transposed now x goal.
	var relative [3][3]float64
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				relative[i][j] += float64(now[k][i] * goal[k][j])
			}
		}
	}
	// The angle of a rotation follows from its trace, so the least angle has the largest trace.
	most := math.Inf(-1)
	for _, s := range symmetries {
		trace := 0.0
		for i, axis := range s.axis {
			trace += s.sign[i] * relative[i][axis]
		}
		most = max(most, trace)
	}
	return degrees(math.Acos(min(max((most-1)/2, -1), 1)))
}

// symmetry is a rotation that maps a cube onto itself: it maps each axis to an axis and keeps
// or reverses it.
type symmetry struct {
	axis [3]int
	sign [3]float64
}

var symmetries = cubeSymmetries()

// cubeSymmetries returns the 24 proper rotations of a cube: the permutations of the axes with
// signs whose determinant is 1.
func cubeSymmetries() (out []symmetry) {
	for i, axis := range [][3]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}} {
		parity := 1.0
		if i >= 3 { // the odd permutations
			parity = -1
		}
		for _, x := range []float64{1, -1} {
			for _, y := range []float64{1, -1} {
				out = append(out, symmetry{axis, [3]float64{x, y, parity * x * y}})
			}
		}
	}
	return out
}

// matrix returns the rotation matrix of a quaternion.
func matrix(q [4]float64) [3][3]float64 {
	q = unit(q)
	w, x, y, z := q[0], q[1], q[2], q[3]
	return [3][3]float64{
		{1 - 2*(y*y+z*z), 2 * (x*y - z*w), 2 * (x*z + y*w)},
		{2 * (x*y + z*w), 1 - 2*(x*x+z*z), 2 * (y*z - x*w)},
		{2 * (x*z - y*w), 2 * (y*z + x*w), 1 - 2*(x*x+y*y)},
	}
}

// leastNorm is the divisor of shorter quaternions, as in CLEAR-LeWM.
const leastNorm = 1e-12

// unit returns a quaternion divided by its length.
func unit(q [4]float64) [4]float64 {
	n := max(norm(q[:]), leastNorm)
	for i := range q {
		q[i] /= n
	}
	return q
}

// norm returns the length of a vector.
func norm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x * x)
	}
	return math.Sqrt(sum)
}
