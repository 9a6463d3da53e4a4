package cube

import (
	"fmt"
	"math"
	"slices"

	"scalewm/envs"
	"scalewm/envs/mjenv"
)

// factors are the factors of stable-worldmodel in the order in which it draws them.
var factors = []envs.Factor{
	{Name: "cube.color", DType: "float64", High: 1, Init: []float64{.96, .26, .33}, Doc: "red, green, blue"},
	{Name: "cube.size", DType: "float64", Low: .01, High: .03, Init: []float64{float64(float32(.02))}, Doc: "half an edge in metres"},
	{Name: "cube.start_position", DType: "float64", Low: -.3, High: .55, Ranges: table[:], Init: []float64{.3, 0}, Sampled: true, Doc: "x, y of a reset in metres"},
	{Name: "cube.start_yaw", DType: "float64", High: 2 * math.Pi, Init: []float64{0}, Sampled: true, Doc: "of a reset"},
	{Name: "cube.goal_position", DType: "float64", Low: -.3, High: .55, Ranges: table[:], Init: []float64{.3, 0}, Sampled: true, Doc: "x, y that the collecting policy aims at"},
	{Name: "cube.goal_yaw", DType: "float64", High: 2 * math.Pi, Init: []float64{0}, Sampled: true, Doc: "that the collecting policy aims at"},
	{Name: "agent.color", DType: "float64", High: 1, Init: []float64{.61, .28, .82}, Doc: "red, green, blue of the gripper"},
	{Name: "agent.ee_start_position", DType: "float64", Low: -.35, High: .6, Ranges: [][2]float64{{.25, .6}, {-.35, .35}, {.2, .35}}, Init: []float64{.425, 0, .275}, Doc: "x, y, z of the effector after a reset in metres"},
	{Name: "floor.color", DType: "float64", High: 1, Init: []float64{.08, .11, .16, .15, .18, .25}, Doc: "red, green, blue of the checker's one colour and of its other"},
	{Name: "camera.angle_delta", DType: "float64", Low: -10, High: 10, Init: []float64{0, 0}, Doc: "degrees about z and about x that the camera is turned by"},
	{Name: "light.intensity", DType: "float64", High: 1, Init: []float64{.7}, Doc: "of the light above, per channel"},
}

// adorn writes the values that stable-worldmodel sets in the scene at every reset.
func adorn(scene *element, l mjenv.Look) error {
	size, light, floor := l["cube.size"][0], l["light.intensity"][0], l["floor.color"]
	// The gripper's two materials share a colour, to which the alpha 1 is added.
	gripper := append(slices.Clone(l["agent.color"]), 1)
	for _, c := range []struct {
		tag, name, attr string
		value           mjenv.Numbers
	}{
		{"geom", "object_0", "size", mjenv.Numbers{size, size, size}},
		{"geom", "target_object_0", "size", mjenv.Numbers{size, size, size}},
		{"light", "global", "diffuse", mjenv.Numbers{light, light, light}},
		{"texture", "grid", "rgb1", floor[:3]},
		{"texture", "grid", "rgb2", floor[3:]},
		{"material", "ur5e/robotiq/black", "rgba", gripper},
		{"material", "ur5e/robotiq/pad_gray", "rgba", gripper},
		{"camera", "front_pixels", "xyaxes", cameraAxes(l["camera.angle_delta"])},
	} {
		e := scene.find(c.tag, c.name)
		if e == nil {
			return fmt.Errorf("no %s named %s in the model files", c.tag, c.name)
		}
		e.set(c.attr, c.value.String())
	}
	return nil
}

// cameraAxes returns the camera's x and y axes, rotated about z and then about x, in degrees.
func cameraAxes(degrees []float64) []float64 {
	sz, cz := math.Sincos(degrees[0] * (math.Pi / 180))
	sx, cx := math.Sincos(degrees[1] * (math.Pi / 180))
	// The rotation matrix Rx·Rz.
	turn := [3]vec3{{cz, -sz, 0}, {cx * sz, cx * cz, -sx}, {sx * sz, sx * cz, cx}}
	var axes []float64
	// The axes of the camera front_pixels in the model files.
	for _, a := range [2]vec3{{0, 1, 0}, {-.628, .001, .778}} {
		for _, row := range turn {
			axes = append(axes, row[0]*a[0]+row[1]*a[1]+row[2]*a[2])
		}
	}
	return axes
}
