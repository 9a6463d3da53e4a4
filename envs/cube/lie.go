package cube

import "math"

// quat is a rotation as a unit quaternion w, x, y, z, as in OGBench. Products and conversions
// keep OGBench's order of operations, so results differ from its own only in the last bits
// of sine and cosine.
type quat [4]float64

// vec3 is a point or a displacement in metres.
type vec3 [3]float64

// transform is a rigid transform: a rotation followed by a translation, in metres.
type transform struct {
	rot quat
	at  vec3
}

// downward is half a turn about x: the orientation of a gripper that points down.
var downward = quat{0, 1, 0, 0}

// aboutZ returns the rotation by an angle about z, in radians. Small angles use the series,
// as in OGBench.
func aboutZ(angle float64) quat {
	if sq := angle * angle; sq < 1e-10 {
		return quat{1 - sq/8 + sq*sq/384, 0, 0, (0.5 - sq/48 + sq*sq/3840) * angle}
	}
	theta := math.Sqrt(angle * angle)
	half := 0.5 * theta
	return quat{math.Cos(half), 0, 0, math.Sin(half) / theta * angle}
}

// mul returns the product a·b: b is applied first.
func (a quat) mul(b quat) quat {
	return quat{
		-a[1]*b[1] - a[2]*b[2] - a[3]*b[3] + a[0]*b[0],
		a[1]*b[0] + a[2]*b[3] - a[3]*b[2] + a[0]*b[1],
		-a[1]*b[3] + a[2]*b[0] + a[3]*b[1] + a[0]*b[2],
		a[1]*b[2] - a[2]*b[1] + a[3]*b[0] + a[0]*b[3],
	}
}

// inverse returns the conjugate, the inverse of a unit quaternion.
func (a quat) inverse() quat { return quat{a[0], -a[1], -a[2], -a[3]} }

// apply rotates v.
func (a quat) apply(v vec3) vec3 {
	r := a.mul(quat{0, v[0], v[1], v[2]}).mul(a.inverse())
	return vec3{r[1], r[2], r[3]}
}

// yaw returns the angle about z, in [-pi, pi].
func (a quat) yaw() float64 {
	return math.Atan2(2*(a[0]*a[3]+a[1]*a[2]), 1-2*(a[2]*a[2]+a[3]*a[3]))
}

// velocity returns the rotation vector: the axis times the angle in [-pi, pi].
func (a quat) velocity() vec3 {
	axis := vec3{a[1], a[2], a[3]}
	sine := math.Sqrt(axis[0]*axis[0] + axis[1]*axis[1] + axis[2]*axis[2])
	if sine < tiny {
		// No rotation: any axis will do, the angle is 0.
		axis = vec3{1, 0, 0}
	} else {
		inv := 1 / sine
		axis = vec3{axis[0] * inv, axis[1] * inv, axis[2] * inv}
	}
	angle := 2 * math.Atan2(sine, a[0])
	if angle > math.Pi {
		angle -= 2 * math.Pi
	}
	return vec3{axis[0] * angle, axis[1] * angle, axis[2] * angle}
}

// tiny is the threshold below which MuJoCo treats a length as zero (mjMINVAL).
const tiny = 1e-15

// quatOf converts a row-major rotation matrix as MuJoCo's mju_mat2Quat does: the
// case distinction keeps it from dividing by a component near zero.
func quatOf(m []float64) (q quat) {
	switch {
	case m[0]+m[4]+m[8] > 0:
		q[0] = 0.5 * math.Sqrt(1+m[0]+m[4]+m[8])
		q[1] = 0.25 * (m[7] - m[5]) / q[0]
		q[2] = 0.25 * (m[2] - m[6]) / q[0]
		q[3] = 0.25 * (m[3] - m[1]) / q[0]
	// x is the largest of x, y, z.
	case m[0] > m[4] && m[0] > m[8]:
		q[1] = 0.5 * math.Sqrt(1+m[0]-m[4]-m[8])
		q[0] = 0.25 * (m[7] - m[5]) / q[1]
		q[2] = 0.25 * (m[1] + m[3]) / q[1]
		q[3] = 0.25 * (m[2] + m[6]) / q[1]
	// y is the largest.
	case m[4] > m[8]:
		q[2] = 0.5 * math.Sqrt(1-m[0]+m[4]-m[8])
		q[0] = 0.25 * (m[2] - m[6]) / q[2]
		q[1] = 0.25 * (m[1] + m[3]) / q[2]
		q[3] = 0.25 * (m[5] + m[7]) / q[2]
	default:
		q[3] = 0.5 * math.Sqrt(1-m[0]-m[4]+m[8])
		q[0] = 0.25 * (m[3] - m[1]) / q[3]
		q[1] = 0.25 * (m[2] + m[6]) / q[3]
		q[2] = 0.25 * (m[5] + m[7]) / q[3]
	}
	return q.normalized()
}

// normalized returns a unit quaternion. Like MuJoCo, it does not change one that is of unit
// length already, so that its bits stay.
func (a quat) normalized() quat {
	n := math.Sqrt(a[0]*a[0] + a[1]*a[1] + a[2]*a[2] + a[3]*a[3])
	if n < tiny {
		return quat{1}
	}
	// MuJoCo multiplies by the inverse; a division would differ in the last bits.
	if math.Abs(n-1) > tiny {
		inv := 1 / n
		return quat{a[0] * inv, a[1] * inv, a[2] * inv, a[3] * inv}
	}
	return a
}

// of returns the composition a·p: the pose p, given relative to a, in a's frame.
func (a transform) of(p transform) transform {
	// Rotation and translation of p are both expressed in a's frame.
	t := a.rot.apply(p.at)
	return transform{a.rot.mul(p.rot), vec3{t[0] + a.at[0], t[1] + a.at[1], t[2] + a.at[2]}}
}

// inverse returns the inverse transform.
func (a transform) inverse() transform {
	inv := a.rot.inverse()
	t := inv.apply(a.at)
	return transform{inv, vec3{-t[0], -t[1], -t[2]}}
}
