package mujoco

import (
	"fmt"
	"runtime"
	"slices"

	"scalewm/mujoco/internal/mjc"
)

// Contact is a copy of one contact point; MuJoCo's own move with every step.
type Contact = mjc.Contact

// NCon is the number of contacts.
func (d *Data) NCon() int { return mjc.NContact(d.open()) }

// Contacts appends the contacts to dst, which may be nil or hold room from before.
func (d *Data) Contacts(dst []Contact) []Contact {
	n := d.NCon()
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	mjc.Contacts(d.c, dst[at:])
	runtime.KeepAlive(d)
	return dst
}

// ContactForce is force (3) and torque (3) of contact i in its frame: the first is
// the push along the normal.
func (d *Data) ContactForce(i int) ([6]float64, error) {
	var f [6]float64
	if d.c == nil {
		return f, ErrClosed
	}
	if n := d.NCon(); i < 0 || i >= n {
		return f, fmt.Errorf("mujoco: force of contact %d: there are %d", i, n)
	}
	err := outcome("force of a contact", d.c, mjc.ContactForce(d.c, i, &f))
	runtime.KeepAlive(d)
	return f, err
}

// Jac fills the Jacobians of an object's position and orientation with respect to
// QVel, 3 x NV each, rows first; nil for one that is not wanted. Kinds: ObjBody (centre
// of mass), ObjXBody, ObjGeom, ObjSite. Positions must be current: Kinematics, ComPos.
func (d *Data) Jac(t ObjType, id int, jacp, jacr []float64) error {
	if d.c == nil {
		return ErrClosed
	}
	n := -1
	switch t {
	case ObjBody, ObjXBody:
		n = d.m.layout.sizes[sizeNBody]
	case ObjGeom:
		n = d.m.layout.sizes[sizeNGeom]
	case ObjSite:
		n = d.m.layout.sizes[sizeNSite]
	}
	if n < 0 {
		return fmt.Errorf("mujoco: Jacobian: a %s has none", t)
	}
	if err := d.jacFits(t, id, n, jacp, jacr); err != nil {
		return err
	}
	err := outcome("Jacobian", d.c, mjc.Jac(d.c, int(t), id, jacp, jacr))
	runtime.KeepAlive(d)
	return err
}

// JacPoint is Jac of a point, in world coordinates, that moves with a body.
func (d *Data) JacPoint(body int, point [3]float64, jacp, jacr []float64) error {
	if d.c == nil {
		return ErrClosed
	}
	if err := d.jacFits(ObjBody, body, d.m.layout.sizes[sizeNBody], jacp, jacr); err != nil {
		return err
	}
	err := outcome("Jacobian of a point", d.c, mjc.JacPoint(d.c, body, &point, jacp, jacr))
	runtime.KeepAlive(d)
	return err
}

func (d *Data) jacFits(t ObjType, id, n int, jacp, jacr []float64) error {
	if id < 0 || id >= n {
		return fmt.Errorf("mujoco: Jacobian of %s %d: the model has %d", t, id, n)
	}
	want := 3 * d.m.layout.sizes[sizeNV]
	for _, j := range [][]float64{jacp, jacr} {
		if j != nil && len(j) != want {
			return fmt.Errorf("mujoco: Jacobian of %d values where 3 x NV is %d", len(j), want)
		}
	}
	return nil
}
