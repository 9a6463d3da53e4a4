package cube

import (
	"fmt"
	"math"

	"scalewm/mujoco"
)

// Parameters of the differential inverse kinematics of OGBench's controller.
const (
	solverSteps  = 20          // maximum number of iterations
	solverNear   = 1e-4        // tolerance in metres, and in radians
	solverDamp   = 1e-12       // regularisation
	solverStride = math.Pi / 4 // maximum change of a joint in one iteration
)

// hand solves for joint angles of the arm at which its flange has a given pose. It computes
// with a separate model of the arm, so that the simulation is not disturbed.
type hand struct {
	d           *mujoco.Data
	flange      int                     // index of the flange's site
	qpos        []float64               // MuJoCo's memory
	at, mat     []float64               // pose of the flange; MuJoCo's memory
	jac, normal [joints][joints]float64 // Jacobian, and JJ' + damping
	err, step   [joints]float64         // pose error (position, rotation) and joint step
	rows        []float64               // MuJoCo's Jacobian: 3 rows for position, 3 for rotation
}

// newHand returns a solver.
func newHand() (*hand, error) {
	m, err := armModel()
	if err != nil {
		return nil, err
	}
	flange, err := m.ID(mujoco.ObjSite, "attachment_site")
	if err != nil {
		return nil, err
	}
	d, err := m.NewData()
	if err != nil {
		return nil, err
	}
	return &hand{d: d, flange: flange, qpos: d.QPos(), at: mujoco.Row(d.SiteXPos(), flange, 3),
		mat: mujoco.Row(d.SiteXMat(), flange, 9), rows: make([]float64, 6*joints)}, nil
}

// reach solves for the joint angles at which the flange has the pose to, or comes as close
// as the iterations get. It starts from angles and writes the result there.
func (h *hand) reach(to transform, angles []float64) error {
	copy(h.qpos, angles)
	// Damped least squares: linearise at the current joints, step, repeat.
	for range solverSteps {
		if err := h.locate(); err != nil {
			return err
		}
		if h.miss(to) {
			break
		}
		if err := h.jacobian(); err != nil {
			return err
		}
		h.solve()
		for i, v := range h.step {
			h.qpos[i] += v
		}
	}
	copy(angles, h.qpos)
	return nil
}

// locate computes the flange's pose and what Jacobians need.
func (h *hand) locate() error {
	if err := h.d.Kinematics(); err != nil {
		return fmt.Errorf("the controller's arm: %w", err)
	}
	if err := h.d.ComPos(); err != nil {
		return fmt.Errorf("the controller's arm: %w", err)
	}
	return nil
}

// miss computes the pose error and reports whether it is within the tolerance.
func (h *hand) miss(to transform) bool {
	// The rotation error as a rotation vector in the world frame, which matches MuJoCo's Jacobian.
	turn := to.rot.mul(quatOf(h.mat).inverse()).velocity()
	for i := range 3 {
		h.err[i], h.err[3+i] = to.at[i]-h.at[i], turn[i]
	}
	return norm(h.err[:3]) <= solverNear && norm(h.err[3:]) <= solverNear
}

// jacobian computes the flange's Jacobian.
func (h *hand) jacobian() error {
	if err := h.d.JacSite(h.flange, h.rows[:3*joints], h.rows[3*joints:]); err != nil {
		return fmt.Errorf("the controller's arm: %w", err)
	}
	for i := range joints {
		copy(h.jac[i][:], h.rows[i*joints:])
	}
	return nil
}

// solve computes the step J'(JJ' + damping)^-1 err, scaled down so that no joint moves more
// than solverStride.
func (h *hand) solve() {
	for i := range joints {
		for j := range joints {
			var sum float64
			for k := range joints {
				sum += h.jac[i][k] * h.jac[j][k]
			}
			h.normal[i][j] = sum
		}
		h.normal[i][i] += solverDamp
	}
	// A copy, since eliminate works in place.
	x := h.err
	eliminate(&h.normal, &x)
	widest := 0.0
	for k := range joints {
		var sum float64
		for i := range joints {
			sum += h.jac[i][k] * x[i]
		}
		h.step[k] = sum
		widest = max(widest, math.Abs(sum))
	}
	if widest > solverStride {
		for k := range h.step {
			h.step[k] *= solverStride / widest
		}
	}
}

// eliminate solves a x = b in place by Gaussian elimination with partial pivoting. It
// overwrites a.
func eliminate(a *[joints][joints]float64, b *[joints]float64) {
	for c := range joints {
		// Partial pivoting: the row with the largest entry in column c.
		p := c
		for i := c + 1; i < joints; i++ {
			if math.Abs(a[i][c]) > math.Abs(a[p][c]) {
				p = i
			}
		}
		a[c], a[p] = a[p], a[c]
		b[c], b[p] = b[p], b[c]
		for i := c + 1; i < joints; i++ {
			f := a[i][c] / a[c][c]
			for j := c + 1; j < joints; j++ {
				a[i][j] -= f * a[c][j]
			}
			b[i] -= f * b[c]
		}
	}
	// Back substitution.
	for c := joints - 1; c >= 0; c-- {
		for j := c + 1; j < joints; j++ {
			b[c] -= a[c][j] * b[j]
		}
		b[c] /= a[c][c]
	}
}

// norm returns the Euclidean norm of a vector.
func norm(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}
