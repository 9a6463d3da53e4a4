package reacher

import (
	_ "embed"
	"fmt"
	"sync"

	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

//go:embed scene.xml
var scene string

// stage is what all worlds of the process share, for nothing in it changes: the
// model, and a renderer, made at the first frame.
type stage struct {
	model  *mujoco.Model
	finger int // the finger's geom
	camera render.Camera
	pen    func() (*render.Renderer, error)
}

// loadStage compiles the model once.
var loadStage = sync.OnceValues(func() (*stage, error) {
	m, err := mujoco.LoadXML(scene, nil)
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
	return &stage{m, finger, render.Fixed(above), sync.OnceValues(func() (*render.Renderer, error) {
		return render.New(m, frameSize, frameSize)
	})}, nil
})
