package cube

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"scalewm/envs"
)

// factors are those of the original in the order in which it draws them.
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

// look is what the scene is written with.
type look struct {
	vary   *envs.Variation
	values []float64 // of the factors
}

func (l look) of(factor string) []float64 { return l.vary.Of(l.values, factor) }

// adorn writes what stable-worldmodel changes in the scene at every reset.
func (l look) adorn(scene *element) error {
	size, light, floor := l.of("cube.size")[0], l.of("light.intensity")[0], l.of("floor.color")
	gripper := text(append(slices.Clone(l.of("agent.color")), 1)...)
	for _, c := range []struct{ tag, name, attr, value string }{
		{"geom", "object_0", "size", text(size, size, size)},
		{"geom", "target_object_0", "size", text(size, size, size)},
		{"light", "global", "diffuse", text(light, light, light)},
		{"texture", "grid", "rgb1", text(floor[:3]...)},
		{"texture", "grid", "rgb2", text(floor[3:]...)},
		{"material", "ur5e/robotiq/black", "rgba", gripper},
		{"material", "ur5e/robotiq/pad_gray", "rgba", gripper},
		{"camera", "front_pixels", "xyaxes", text(cameraAxes(l.of("camera.angle_delta"))...)},
	} {
		e := scene.find(c.tag, c.name)
		if e == nil {
			return fmt.Errorf("no %s named %s in the model files", c.tag, c.name)
		}
		e.set(c.attr, c.value)
	}
	return nil
}

func text(v ...float64) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(parts, " ")
}

// cameraAxes are the camera's x and y axis, turned about z and then about x by degrees.
func cameraAxes(degrees []float64) []float64 {
	sz, cz := math.Sincos(degrees[0] * (math.Pi / 180))
	sx, cx := math.Sincos(degrees[1] * (math.Pi / 180))
	turn := [3]vec3{{cz, -sz, 0}, {cx * sz, cx * cz, -sx}, {sx * sz, sx * cz, cx}}
	var axes []float64
	for _, a := range [2]vec3{{0, 1, 0}, {-.628, .001, .778}} {
		for _, row := range turn {
			axes = append(axes, row[0]*a[0]+row[1]*a[1]+row[2]*a[2])
		}
	}
	return axes
}

// change goes on in a world whose factors have these values.
func (e *env) change(values []float64) error {
	if slices.Equal(values, e.stage.values) {
		return nil
	}
	s, err := look{e.vary, values}.stage()
	if err != nil {
		return err
	}
	return e.enter(s)
}

// enter goes on in a stage.
func (e *env) enter(s *stage) error {
	if s == e.stage {
		return nil
	}
	d, err := s.model.NewData()
	if err != nil {
		return fmt.Errorf("cube: making a world: %w", err)
	}
	if e.d != nil {
		e.d.Close()
	}
	e.stage, e.d, e.arrays = s, d, s.arraysOf(d)
	return nil
}

// Retarget draws a new target, as the collecting policy wants where it has met one.
func (e *env) Retarget(r *rand.Rand) { e.aim(e.place(r, "goal")) }

// place draws where a cube lies on the table, and its yaw, unless they are fixed.
func (e *env) place(r *rand.Rand, which string) (at vec3, yaw float64) {
	var angle [1]float64
	e.draw(r, "cube."+which+"_position", at[:2])
	e.draw(r, "cube."+which+"_yaw", angle[:])
	at[2] = height
	return at, angle[0]
}

// draw is the value of a factor that every reset draws.
func (e *env) draw(r *rand.Rand, factor string, dst []float64) {
	if e.vary.Fixed(factor) {
		copy(dst, e.vary.Of(e.stage.values, factor))
		return
	}
	f, _ := spec.Factor(factor)
	f.Draw(r, dst)
}
