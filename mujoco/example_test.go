package mujoco_test

import (
	"errors"
	"fmt"
	"testing/fstest"

	"scalewm/mujoco"
)

const pendulum = `
<mujoco>
  <worldbody>
    <body name="pole">
      <joint name="hinge" type="hinge" axis="0 1 0"/>
      <geom name="rod" type="capsule" fromto="0 0 0 0 0 -1" size="0.02"/>
      <site name="tip" pos="0 0 -1"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge"/></actuator>
</mujoco>`

func Example() {
	m, err := mujoco.LoadXML(pendulum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	d, err := m.NewData()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()

	qpos, ctrl := d.QPos(), d.Ctrl()
	qpos[0] = 1
	for range 500 {
		ctrl[0] = -0.1 * d.QVel()[0]
		if err := d.Step(1); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("after %.0f s at %.2f rad\n", d.Time(), qpos[0])
	// Output: after 1 s at -0.81 rad
}

// Names are resolved to indices once, outside the simulation loop.
func ExampleModel_ID() {
	m, err := mujoco.LoadXML(pendulum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	tip, _ := m.ID(mujoco.ObjSite, "tip")
	d, _ := m.NewData()
	defer d.Close()
	_ = d.Forward()
	fmt.Println(mujoco.Row(d.SiteXPos(), tip, 3))
	_, err = m.ID(mujoco.ObjSite, "top")
	fmt.Println(err)
	// Output:
	// [0 0 -1]
	// mujoco: the model has no site named "top"
}

// Files that a model refers to come from any fs.FS, such as an embedded one.
func ExampleLoadXML() {
	files := fstest.MapFS{
		"pole.xml": {Data: []byte(pendulum)},
	}
	m, err := mujoco.LoadXML(`<mujoco><include file="pole.xml"/></mujoco>`, files)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	fmt.Println(m.Size("nbody"), "bodies,", m.Size("nu"), "control")
	// Output: 2 bodies, 1 control
}

// A state with huge values is an error. A reset makes the data usable again.
func ExamplePhysicsError() {
	m, err := mujoco.LoadXML(pendulum, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	d, _ := m.NewData()
	defer d.Close()
	d.QVel()[0] = 1e12
	err = d.Step(1)
	fmt.Println(errors.Is(err, mujoco.ErrDiverged))
	fmt.Println(d.Reset(), d.Step(1))
	// Output:
	// true
	// <nil> <nil>
}
