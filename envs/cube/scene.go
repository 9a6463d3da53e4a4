package cube

import (
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"scalewm/mujoco"
	"scalewm/mujoco/render"
	thirdparty "scalewm/third_party"
)

// Variable is the environment variable that names the folder of OGBench's model
// files (descriptions), instead of the one that make setup fetches.
const Variable = "SCALEWM_OGBENCH"

// ErrNoFiles is wrapped where OGBench's model files are not there.
var ErrNoFiles = errors.New("cube: OGBench's model files not found")

//go:embed scene.xml
var additions []byte

// What the tasks write into the model; float32 numbers of the original among them.
const (
	cubeSize  = "0.019999999552965164 0.019999999552965164 0.019999999552965164"
	lightness = "0.69999998807907104 0.69999998807907104 0.69999998807907104"
	purple    = "0.61 0.28 0.82 1"
)

// findFiles is the folder of OGBench's model files.
func findFiles() (string, error) {
	const arena = "floor_wall.xml"
	variable := os.Getenv(Variable)
	places := thirdparty.Places(variable, "ogbench", "descriptions")
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.IsDir() {
			if _, err := os.Stat(p + "/" + arena); err == nil {
				return p, nil
			}
		}
	}
	hint := "make setup"
	if variable != "" {
		hint = "correct or unset " + Variable
	}
	return "", fmt.Errorf("%w in %v (hint: %s)", ErrNoFiles, places, hint)
}

// assemble joins the model files to the scene as OGBench's program does, in the same
// order, and takes from them the arm alone, on which the controller thinks.
func assemble(files fs.FS) (scene, arm string, err error) {
	part := map[string]*element{}
	for name, file := range map[string]string{"arena": "floor_wall.xml", "cubes": "cube_outer.xml", "cube": "cube_inner.xml",
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
	if err := adorn(arena); err != nil {
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

// adorn writes what stable-worldmodel changes at every reset.
func adorn(scene *element) error {
	for _, c := range []struct{ tag, name, attr, value string }{
		{"geom", "object_0", "size", cubeSize},
		{"geom", "target_object_0", "size", cubeSize},
		{"light", "global", "diffuse", lightness},
		{"material", "ur5e/robotiq/black", "rgba", purple},
		{"material", "ur5e/robotiq/pad_gray", "rgba", purple},
	} {
		e := scene.find(c.tag, c.name)
		if e == nil {
			return fmt.Errorf("no %s named %s in the model files", c.tag, c.name)
		}
		e.set(c.attr, c.value)
	}
	return nil
}

// stage is what all worlds of the process share, for nothing in it changes: the
// models, and a renderer, made at the first frame.
type stage struct {
	model, arm      *mujoco.Model
	pinch, pad      int       // site between the finger tips, body of the right pad
	flange          int       // the site where the gripper is mounted, in arm
	flangeFromPinch transform // where the flange is, seen from the pinch site
	camera          render.Camera
	pen             func() (*render.Renderer, error)
}

// loadStage compiles the models once.
var loadStage = sync.OnceValues(func() (*stage, error) {
	if err := mujoco.Open(); err != nil {
		return nil, err
	}
	dir, err := findFiles()
	if err != nil {
		return nil, err
	}
	s, err := newStage(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("cube: making the scene from %s: %w (hint: is something missing there? make setup fetches it)", dir, err)
	}
	return s, nil
})

func newStage(files fs.FS) (*stage, error) {
	scene, arm, err := assemble(files)
	if err != nil {
		return nil, err
	}
	s := &stage{}
	if s.model, err = mujoco.LoadXML(scene, files); err != nil {
		return nil, err
	}
	if s.arm, err = mujoco.LoadXML(arm, nil); err != nil {
		return nil, err
	}
	if err := s.find(); err != nil {
		return nil, err
	}
	s.pen = sync.OnceValues(func() (*render.Renderer, error) { return render.New(s.model, 224, 224) })
	return s, s.tune()
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

// tune changes the compiled model as OGBench does, hides the target, and measures
// where the flange is.
func (s *stage) tune() error {
	gain, bias := s.model.ActuatorGainprm(), s.model.ActuatorBiasprm()
	for i, k := range gains {
		mujoco.Row(gain, i, 10)[0] = k
		mujoco.Row(gain, i, 10)[2] = -k / 10
		mujoco.Row(bias, i, 10)[1] = -k
	}
	target, err := s.model.ID(mujoco.ObjGeom, "target_object_0")
	if err != nil {
		return err
	}
	mujoco.Row(s.model.GeomRGBA(), target, 4)[3] = 0
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
