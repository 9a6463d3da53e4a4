package render

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// burr returns a spiky sphere of n rings, whose triangles are thin: vertices and faces in
// MJCF's notation.
func burr(n int, r *rand.Rand) (vertices, faces string) {
	var v, f strings.Builder
	for i := range n {
		for j := range n {
			polar, around := math.Pi*(float64(i)+.5)/float64(n), 2*math.Pi*float64(j)/float64(n)
			out := .7 + .3*r.Float64()
			fmt.Fprintf(&v, "%g %g %g ", out*math.Sin(polar)*math.Cos(around), out*math.Sin(polar)*math.Sin(around), out*math.Cos(polar))
			if i+1 < n {
				a, b := i*n+j, i*n+(j+1)%n
				fmt.Fprintf(&f, "%d %d %d %d %d %d ", a, a+n, b, b, a+n, b+n)
			}
		}
	}
	return v.String(), f.String()
}

// TestSeenFacesEqualAll compares frames with and without face selection, byte by byte. Faces
// are small, thin, facing away, clipped by the near and far planes, behind the camera or
// around it, in the image, in a mirror and in the shadow maps of two lights.
func TestSeenFacesEqualAll(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	r := rand.New(rand.NewPCG(5, 6))
	fineV, fineF := burr(64, r)
	coarseV, coarseF := burr(12, r)
	m, d := world(t, `<mujoco><visual><quality shadowsize="256"/><map znear="0.002" zfar="20"/></visual><statistic extent="1" center="0 0 0"/>
	<asset><mesh name="fine" inertia="shell" vertex="`+fineV+`" face="`+fineF+`" scale=".2 .2 .2"/>
	<mesh name="coarse" inertia="shell" vertex="`+coarseV+`" face="`+coarseF+`" scale=".3 .3 .3"/>
	<mesh name="dust" inertia="shell" vertex="`+fineV+`" face="`+fineF+`" scale=".01 .01 .01"/>
	<texture name="grid" type="2d" builtin="checker" rgb1=".1 .2 .3" rgb2=".2 .3 .4" width="100" height="100"/>
	<material name="grid" texture="grid" texuniform="true" reflectance=".3"/></asset>
	<worldbody><light pos="0 0 3" directional="true"/><light name="lamp" pos=".5 .5 2" dir="-.2 -.2 -1"/>
	<geom type="plane" size="2 2 .02" material="grid"/>
	<geom type="mesh" mesh="dust" pos=".3 .3 .1"/>
	<body pos="0 0 .3"><freejoint/><geom type="mesh" mesh="fine" rgba=".8 .4 .2 1" contype="0" conaffinity="0"/></body>
	<body pos=".5 0 .3"><freejoint/><geom type="mesh" mesh="coarse" rgba=".2 .4 .8 .6" contype="0" conaffinity="0"/>
	<geom type="ellipsoid" size=".1 .2 .1" pos="0 0 .3"/><geom type="capsule" size=".03 .2" pos=".2 0 0"/></body>
	<body><freejoint/><geom type="box" size=".001 .001 .001" contype="0" conaffinity="0"/><camera name="eye"/></body>
	</worldbody></mujoco>`)
	kept, plain := pair(t, m, 64, 56)
	// Distances of the camera from the mesh: inside it, so far that it is a point, and some at
	// which the fine mesh has about one triangle per sample.
	reaches := []float64{0.05, 0.2, 0.3, 0.6, 1, 2, 5, 15}
	for i := range 64 {
		q := d.QPos()
		for j := range q {
			q[j] = r.NormFloat64()
		}
		for k := range 3 {
			q[k], q[7+k] = 0.2*q[k], 0.4*q[7+k]
		}
		q[2], q[9] = q[2]+0.3, q[9]+0.3
		// The camera looks along its -z, in every second frame at the fine mesh.
		at, away := q[14:17], reaches[i%len(reaches)]/math.Sqrt(q[14]*q[14]+q[15]*q[15]+q[16]*q[16])
		for k := range at {
			at[k] = at[k] * away
		}
		if i%2 == 0 {
			z := [3]float64{at[0], at[1], at[2]}
			n := math.Sqrt(z[0]*z[0] + z[1]*z[1] + z[2]*z[2])
			copy(q[17:], []float64{1 + z[2]/n, -z[1] / n, z[0] / n, 0})
		}
		for k := range at {
			at[k] += q[k]
		}
		must(t, d.Forward())
		if !bytes.Equal(draw(t, kept, d, 0), draw(t, plain, d, 0)) {
			t.Fatalf("frame %d differs", i)
		}
	}
}
