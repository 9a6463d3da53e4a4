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

	"scalewm/envs/mjenv"
	"scalewm/mujoco"
	thirdparty "scalewm/third_party"
)

// Variable is the environment variable with the path of the folder of OGBench's model files
// (descriptions), to be used instead of the one that make setup fetches.
const Variable = "SCALEWM_OGBENCH"

// Folder is the name of the folder of model files in OGBench's package. MainFile is the file
// that the scene starts from.
const (
	Folder   = "descriptions"
	MainFile = "floor_wall.xml"
	// armFile is the model of the arm, of which the controller has a copy.
	armFile = "universal_robots_ur5e/ur5e.xml"
)

// ErrNoFiles is wrapped by the error if OGBench's model files are not found.
var ErrNoFiles = errors.New("OGBench's model files not found")

//go:embed scene.xml
var additions []byte

// findFiles returns the folder of OGBench's model files.
func findFiles() (string, error) {
	places := thirdparty.Places(os.Getenv(Variable), "ogbench", Folder)
	for _, p := range places {
		if st, err := os.Stat(filepath.Join(p, MainFile)); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w in %v (hint: %s)", ErrNoFiles, places, thirdparty.Hint(Variable, "FOLDER"))
}

// assemble joins the model files to one scene, in the same order as OGBench does. The order
// determines the indices of bodies and joints, and so the layout of qpos.
func assemble(files fs.FS, l mjenv.Look) (string, error) {
	// Read all documents first, so that a missing file is an error before anything is built.
	part := map[string]*element{}
	for name, file := range map[string]string{"arena": MainFile, "cubes": "cube_outer.xml", "cube": "cube_inner.xml",
		"ur5e": armFile, "gripper": "robotiq_2f85/2f85.xml"} {
		var err error
		if part[name], err = readMJCF(files, file); err != nil {
			return "", err
		}
	}
	own := &element{}
	if err := xml.Unmarshal(additions, own); err != nil {
		return "", err
	}
	// The arm's own lights and keyframe would change the frames and the number of states.
	part["ur5e"].drop("light", "keyframe")
	part["ur5e"].locate("universal_robots_ur5e")
	part["gripper"].locate("robotiq_2f85")
	if err := mount(part["ur5e"], part["gripper"]); err != nil {
		return "", err
	}
	arena := part["arena"]
	// Order matters from here on: bodies are numbered in the order in which they are added.
	arena.attach(arena.section("worldbody"), part["ur5e"], "ur5e/")
	arena.include(part["cubes"])
	arena.include(part["cube"])
	arena.include(own)
	// Factors are written into the complete scene, where all names have their final prefixes.
	if err := adorn(arena, l); err != nil {
		return "", err
	}
	text, err := xml.Marshal(arena)
	return string(text), err
}

// assembleArm returns a model of the arm alone, for the controller's inverse kinematics.
// Only the kinematic tree matters there, so meshes and actuators are dropped.
func assembleArm(files fs.FS) (string, error) {
	arm, err := readMJCF(files, armFile)
	if err != nil {
		return "", err
	}
	arm.drop("asset", "light", "geom", "actuator", "keyframe")
	text, err := xml.Marshal(arm)
	return string(text), err
}

// armModel is compiled once, since no factor changes the arm.
var armModel = sync.OnceValues(func() (*mujoco.Model, error) {
	dir, err := findFiles()
	if err != nil {
		return nil, err
	}
	text, err := assembleArm(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return mujoco.LoadXML(text, nil)
})

// mount attaches the gripper to the arm's flange.
func mount(arm, gripper *element) error {
	flange := arm.find("site", "attachment_site")
	last := arm.find("body", "wrist_3_link")
	if flange == nil || last == nil {
		return errors.New("ur5e.xml: no body wrist_3_link with a site attachment_site")
	}
	arm.attach(last, gripper, "robotiq/")
	// attach appends the gripper's frame as the last child. It gets the pose of the flange.
	frame := last.Children[len(last.Children)-1]
	frame.set("pos", flange.get("pos"))
	frame.set("quat", flange.get("quat"))
	return nil
}

// compile returns the scene with this look.
func compile(l mjenv.Look) (*mujoco.Model, error) {
	// Checked first, so that a missing library is reported even if the files are missing too.
	if err := mujoco.Open(); err != nil {
		return nil, err
	}
	dir, err := findFiles()
	if err != nil {
		return nil, err
	}
	m, err := compileFrom(os.DirFS(dir), l)
	if err != nil {
		return nil, fmt.Errorf("from %s: %w (hint: is something missing there? make setup fetches it)", dir, err)
	}
	return m, nil
}

// compileFrom is compile for model files in any file system.
func compileFrom(files fs.FS, l mjenv.Look) (*mujoco.Model, error) {
	text, err := assemble(files, l)
	if err != nil {
		return nil, err
	}
	m, err := mujoco.LoadXML(text, files)
	if err != nil {
		return nil, err
	}
	// Values that OGBench sets after compilation are written to the compiled model.
	tune(m)
	return m, paint(m, l["cube.color"])
}

// paint sets the cube's colour and hides the target.
func paint(m *mujoco.Model, color []float64) error {
	for name, alpha := range map[string]float32{"object_0": 1, "target_object_0": 0} {
		id, err := m.ID(mujoco.ObjGeom, name)
		if err != nil {
			return err
		}
		rgba := mujoco.Row(mujoco.Array[float32](m, "geom_rgba"), id, 4)
		for i, c := range color {
			rgba[i] = float32(c)
		}
		// The target has alpha 0: it exists for the goal but is not drawn.
		rgba[3] = alpha
	}
	return nil
}

// gains are the stiffnesses that OGBench sets for the arm's motors, in N m/rad.
var gains = [joints]float64{4500, 4500, 4500, 2000, 2000, 500}

// tune sets the same parameters of the arm's actuators as OGBench: the gains, and values
// that it derives from them.
func tune(m *mujoco.Model) {
	gain, bias := mujoco.Array[float64](m, "actuator_gainprm"), mujoco.Array[float64](m, "actuator_biasprm")
	for i, k := range gains {
		// Each actuator has 10 gain and 10 bias parameters (mjNGAIN, mjNBIAS).
		mujoco.Row(gain, i, 10)[0] = k
		mujoco.Row(gain, i, 10)[2] = -k / 10
		mujoco.Row(bias, i, 10)[1] = -k
	}
}
