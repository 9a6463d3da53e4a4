package reacher

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"scalewm/envs"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

//go:embed scene.xml
var sceneText string

var scene = template.Must(template.New("scene.xml").Parse(sceneText))

// keptRenderers is how many looks can be drawn in turn at full speed.
const keptRenderers = 8

// pen draws all worlds of the process.
var pen = render.NewCache(keptRenderers, frameSize, frameSize)

// stage is an arm with its factors at certain values. It is never changed, so that
// many worlds share it.
type stage struct {
	values []float64 // of the factors
	model  *mujoco.Model
	finger int  // the finger's geom
	shown  bool // the target is a body, the first that is moved by hand
	camera render.Camera
}

// stages are those in use.
var stages envs.Stages[stage]

// usual is the arm without variation, which stays.
var usual = sync.OnceValues(func() (*stage, error) {
	vary, err := spec.Variation(nil)
	if err != nil {
		return nil, err
	}
	return look{vary, vary.Start()}.stage()
})

// stage is the compiled look.
func (l look) stage() (*stage, error) {
	return stages.Of(l.values, func() (*stage, error) { return newStage(l) })
}

// newStage compiles an arm.
func newStage(l look) (*stage, error) {
	var xml strings.Builder
	if err := scene.Execute(&xml, l); err != nil {
		return nil, fmt.Errorf("reacher: writing the scene: %w", err)
	}
	m, err := mujoco.LoadXML(xml.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("reacher: loading the arm: %w", err)
	}
	finger, err := m.ID(mujoco.ObjGeom, "finger")
	if err != nil {
		return nil, err
	}
	above, err := m.ID(mujoco.ObjCamera, "above")
	if err != nil {
		return nil, err
	}
	return &stage{l.values, m, finger, l.Shown(), render.Fixed(above)}, nil
}

// arrays are MuJoCo's own memory of one world.
type arrays struct {
	qpos, qvel, ctrl, acc []float64
	fingerAt              []float64 // x, y, z
	targetAt              []float64 // x, y, z; nil where it is not drawn
}

func (s *stage) arraysOf(d *mujoco.Data) arrays {
	a := arrays{qpos: d.QPos(), qvel: d.QVel(), ctrl: d.Ctrl(), acc: d.QAccWarmstart(), fingerAt: mujoco.Row(d.GeomXPos(), s.finger, 3)}
	if s.shown {
		a.targetAt = mujoco.Row(d.MocapPos(), 0, 3)
	}
	return a
}
