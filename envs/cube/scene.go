package cube

import (
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"scalewm/envs"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
	thirdparty "scalewm/third_party"
)

// Variable is the environment variable that names the folder of OGBench's model
// files (descriptions), instead of the one that make setup fetches.
const Variable = "SCALEWM_OGBENCH"

// Folder is the model files' own name for their folder, and MainFile the one that
// the scene begins with.
const (
	Folder   = "descriptions"
	MainFile = "floor_wall.xml"
)

// ErrNoFiles is wrapped where OGBench's model files are not there.
var ErrNoFiles = errors.New("cube: OGBench's model files not found")

//go:embed scene.xml
var additions []byte

// keptRenderers is how many looks can be drawn in turn at full speed.
const keptRenderers = 4

// pen draws all worlds of the process.
var pen = render.NewCache(keptRenderers, envs.FrameSize, envs.FrameSize)

// findFiles is the folder of OGBench's model files.
func findFiles() (string, error) {
	variable := os.Getenv(Variable)
	places := thirdparty.Places(variable, "ogbench", Folder)
	for _, p := range places {
		if st, err := os.Stat(filepath.Join(p, MainFile)); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	hint := "make setup"
	if variable != "" {
		hint = "correct or unset " + Variable
	}
	return "", fmt.Errorf("%w in %v (hint: %s)", ErrNoFiles, places, hint)
}

// assemble joins the model files to the scene as OGBench's program does, in the same
// order, and makes besides a model of the arm alone, which the controller's inverse
// kinematics uses.
func assemble(files fs.FS, l look) (scene, arm string, err error) {
	part := map[string]*element{}
	for name, file := range map[string]string{"arena": MainFile, "cubes": "cube_outer.xml", "cube": "cube_inner.xml",
		"ur5e": "universal_robots_ur5e/ur5e.xml", "arm": "universal_robots_ur5e/ur5e.xml", "gripper": "robotiq_2f85/2f85.xml"} {
		if part[name], err = readMJCF(files, file); err != nil {
			return "", "", err
		}
	}
	own := &element{}
	if err := xml.Unmarshal(additions, own); err != nil {
		return "", "", err
	}
	part["arm"].drop("asset", "light", "geom", "actuator", "keyframe")

	part["ur5e"].drop("light", "keyframe")
	part["ur5e"].locate("universal_robots_ur5e")
	part["gripper"].locate("robotiq_2f85")
	if err := mount(part["ur5e"], part["gripper"]); err != nil {
		return "", "", err
	}
	arena := part["arena"]
	arena.attach(arena.section("worldbody"), part["ur5e"], "ur5e/")
	arena.include(part["cubes"])
	arena.include(part["cube"])
	arena.include(own)
	if err := l.adorn(arena); err != nil {
		return "", "", err
	}
	text, err := xml.Marshal(arena)
	if err != nil {
		return "", "", err
	}
	armText, err := xml.Marshal(part["arm"])
	return string(text), string(armText), err
}

// mount attaches the gripper to the arm's flange.
func mount(arm, gripper *element) error {
	flange := arm.find("site", "attachment_site")
	last := arm.find("body", "wrist_3_link")
	if flange == nil || last == nil {
		return errors.New("ur5e.xml: no body wrist_3_link with a site attachment_site")
	}
	arm.attach(last, gripper, "robotiq/")
	frame := last.Children[len(last.Children)-1]
	frame.set("pos", flange.get("pos"))
	frame.set("quat", flange.get("quat"))
	return nil
}

// stage is a scene with its factors at certain values. It is never changed, so that
// many worlds share it.
type stage struct {
	values          []float64 // of the factors
	model, arm      *mujoco.Model
	pinch, pad      int       // site between the finger tips, body of the right pad
	flange          int       // the site where the gripper is mounted, in arm
	flangeFromPinch transform // where the flange is, seen from the pinch site
	camera          render.Camera
}

// stages are those in use.
var stages envs.Stages[stage]

// usual is the scene without variation, which stays.
var usual = sync.OnceValues(func() (*stage, error) {
	vary, err := spec.Variation(nil)
	if err != nil {
		return nil, err
	}
	return look{vary, vary.Start()}.stage()
})

// stage is the compiled look.
func (l look) stage() (*stage, error) {
	return stages.Of(l.values, func() (*stage, error) {
		if err := mujoco.Open(); err != nil {
			return nil, err
		}
		dir, err := findFiles()
		if err != nil {
			return nil, err
		}
		s, err := newStage(os.DirFS(dir), l)
		if err != nil {
			return nil, fmt.Errorf("cube: making the scene from %s: %w (hint: is something missing there? make setup fetches it)", dir, err)
		}
		return s, nil
	})
}

func newStage(files fs.FS, l look) (*stage, error) {
	scene, arm, err := assemble(files, l)
	if err != nil {
		return nil, err
	}
	s := &stage{values: l.values}
	if s.model, err = mujoco.LoadXML(scene, files); err != nil {
		return nil, err
	}
	if s.arm, err = mujoco.LoadXML(arm, nil); err != nil {
		return nil, err
	}
	if err := s.find(); err != nil {
		return nil, err
	}
	if err := s.paint(l.of("cube.color")); err != nil {
		return nil, err
	}
	return s, s.tune()
}

// paint colours the cube and hides the target.
func (s *stage) paint(color []float64) error {
	for name, alpha := range map[string]float32{"object_0": 1, "target_object_0": 0} {
		id, err := s.model.ID(mujoco.ObjGeom, name)
		if err != nil {
			return err
		}
		rgba := mujoco.Row(s.model.GeomRGBA(), id, 4)
		for i, c := range color {
			rgba[i] = float32(c)
		}
		rgba[3] = alpha
	}
	return nil
}

// find looks up what the world reads and writes.
func (s *stage) find() error {
	var camera int
	for _, c := range []struct {
		to   *int
		m    *mujoco.Model
		kind mujoco.ObjType
		name string
	}{
		{&s.pinch, s.model, mujoco.ObjSite, "ur5e/robotiq/pinch"},
		{&s.pad, s.model, mujoco.ObjBody, "ur5e/robotiq/right_pad"},
		{&camera, s.model, mujoco.ObjCamera, "front_pixels"},
		{&s.flange, s.arm, mujoco.ObjSite, "attachment_site"},
	} {
		id, err := c.m.ID(c.kind, c.name)
		if err != nil {
			return err
		}
		*c.to = id
	}
	s.camera = render.Fixed(camera)
	return nil
}

// gains are the stiffness that OGBench gives the arm's motors, in N m/rad.
var gains = [joints]float64{4500, 4500, 4500, 2000, 2000, 500}

// tune changes the compiled model as OGBench does, and measures where the flange is.
func (s *stage) tune() error {
	gain, bias := s.model.ActuatorGainprm(), s.model.ActuatorBiasprm()
	for i, k := range gains {
		mujoco.Row(gain, i, 10)[0] = k
		mujoco.Row(gain, i, 10)[2] = -k / 10
		mujoco.Row(bias, i, 10)[1] = -k
	}
	flange, err := s.model.ID(mujoco.ObjSite, "ur5e/attachment_site")
	if err != nil {
		return err
	}
	d, err := s.model.NewData()
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Forward(); err != nil {
		return err
	}
	at := func(site int) transform {
		return transform{quatOf(mujoco.Row(d.SiteXMat(), site, 9)), vec3(mujoco.Row(d.SiteXPos(), site, 3))}
	}
	s.flangeFromPinch = at(s.pinch).inverse().of(at(flange))
	return nil
}
