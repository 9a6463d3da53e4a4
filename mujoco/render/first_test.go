package render

import (
	"bytes"
	"testing"
)

// Transparent geoms are drawn back to front, so if two of them swap places, the first draw
// is a different one.
func TestFirstDrawTransparent(t *testing.T) {
	m, d := world(t, `<mujoco><worldbody><light pos="0 0 3" castshadow="false"/><camera pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
	<body mocap="true" pos="0 -.5 0"><geom type="box" size=".2 .2 .2" rgba="1 0 0 .5"/></body>
	<body mocap="true" pos=".3 .5 0"><geom type="box" size=".2 .2 .2" rgba="0 0 1 .5"/></body></worldbody></mujoco>`)
	kept, plain := pair(t, m, 64, 48)
	for i := range 6 {
		if p := d.MocapPos(); i == 3 {
			for k := range 3 {
				p[k], p[3+k] = p[3+k], p[k]
			}
		}
		must(t, d.Forward())
		if !bytes.Equal(draw(t, kept, d, 0), draw(t, plain, d, 0)) {
			t.Errorf("frame %d differs", i)
		}
	}
}

// Seen from below, where the floor is transparent, the first draw of this scene is one into
// the shadow map, which must not be cached.
func TestFirstDrawIsNoShadow(t *testing.T) {
	m, d := world(t, `<mujoco><visual><quality shadowsize="512"/></visual><worldbody><light pos="0 0 3" dir="0 0 -1" castshadow="true"/>
	<camera pos="0 0 -2" xyaxes="1 0 0 0 -1 0"/><camera pos="0 -2 1.5" xyaxes="1 0 0 0 .5 1"/>
	<body pos="-.3 0 .5"><geom type="box" size=".2 .2 .2" rgba="1 0 0 .9"/></body>
	<body mocap="true" pos=".5 .3 .5"><geom type="box" size=".2 .2 .2" rgba="0 0 1 .9"/></body>
	<body><geom type="plane" size="2 2 .1" rgba=".7 .7 .7 1"/></body></worldbody></mujoco>`)
	kept, plain := pair(t, m, 64, 48)
	for i, camera := range []int{0, 0, 0, 1, 1, 1, 1, 1} {
		if i == 2 {
			d.MocapPos()[0] += 0.1
		}
		must(t, d.Forward())
		if !bytes.Equal(draw(t, kept, d, camera), draw(t, plain, d, camera)) {
			t.Errorf("frame %d differs", i)
		}
	}
}
