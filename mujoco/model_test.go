package mujoco

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const ball = `<mujoco><worldbody><body name="ball" pos="0 0 1"><freejoint/><geom size=".1"/></body></worldbody></mujoco>`

// A tetrahedron, as OBJ text.
const tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

func TestLoad(t *testing.T) {
	needLibrary(t)
	const withMesh = `<mujoco><asset><mesh name="t" file="meshes/t.obj"/></asset>
<worldbody><geom type="mesh" mesh="t"/></worldbody></mujoco>`
	const including = `<mujoco><include file="parts/ball.xml"/></mujoco>`
	files := fstest.MapFS{"parts/ball.xml": {Data: []byte(ball)}, "meshes/t.obj": {Data: []byte(tetrahedron)}}
	for name, tc := range map[string]struct {
		xml            string
		bodies, meshes int
	}{
		"one file":     {ball, 2, 0},
		"with a mesh":  {withMesh, 1, 1},
		"with a part":  {including, 2, 0},
		"./ in a path": {strings.Replace(including, "parts/", "./parts/", 1), 2, 0},
	} {
		m, err := LoadXML(tc.xml, files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Size("nbody") != tc.bodies || m.Size("nmesh") != tc.meshes {
			t.Errorf("%s: %d bodies, %d meshes, want %d, %d", name, m.Size("nbody"), m.Size("nmesh"), tc.bodies, tc.meshes)
		}
		m.Close()
	}
}

func TestLoadErrors(t *testing.T) {
	needLibrary(t)
	for name, tc := range map[string]struct {
		load func() (*Model, error)
		want []string
		line int
	}{
		"no XML": {func() (*Model, error) { return LoadXML("not XML", nil) }, []string{"XML text", "parse error"}, 0},
		"empty":  {func() (*Model, error) { return LoadXML("", nil) }, []string{"empty"}, 0},
		"unknown element": {func() (*Model, error) {
			return LoadXML("<mujoco>\n<worldbody>\n<nonsense/>\n</worldbody>\n</mujoco>", nil)
		}, []string{"nonsense", "line 3"}, 3},
		"bad number": {func() (*Model, error) {
			return LoadXML("<mujoco>\n<worldbody>\n\n<geom size=\"a\"/></worldbody></mujoco>", nil)
		}, []string{"size", "line 4"}, 4},
		"compiler": {func() (*Model, error) {
			return LoadXML("<mujoco>\n<worldbody>\n<body>\n<joint/>\n</body></worldbody></mujoco>", nil)
		}, []string{"mass"}, 3},
		"missing mesh": {func() (*Model, error) {
			return LoadXML(`<mujoco><asset><mesh name="m" file="absent.stl"/></asset></mujoco>`, nil)
		}, []string{"absent.stl"}, 0},
	} {
		m, err := tc.load()
		if err == nil {
			t.Errorf("%s: no error", name)
			m.Close()
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q lacks %q, or has several lines", name, err, w)
			}
		}
		var ce *CompileError
		if errors.As(err, &ce) && ce.Line != tc.line {
			t.Errorf("%s: line %d, want %d: %v", name, ce.Line, tc.line, err)
		}
	}
}

func TestNames(t *testing.T) {
	m := world(t)
	for kind, names := range map[ObjType][]string{
		ObjBody: {"world", "upper", "lower", "box", "marker"}, ObjGeom: {"floor", "upper", "lower", "box", "marker"},
		ObjSite: {"tip"}, ObjCamera: {"side"},
	} {
		for id, name := range names { // MuJoCo numbers them in the order of the file
			if got, err := m.ID(kind, name); err != nil || got != id {
				t.Errorf("%s %q is %d (%v), want %d", kind, name, got, err, id)
			}
		}
	}
	if _, err := m.ID(ObjSite, "nobody"); err == nil || !strings.Contains(err.Error(), `no site named "nobody"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestViewsHaveMuJoCosShapes(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	for name, got := range map[string][2]int{ // [length, wanted]: from world.xml by hand
		"qpos":        {len(d.QPos()), 2 + 7},
		"qvel":        {len(d.QVel()), 2 + 6},
		"act":         {len(Array[float64](d, "act")), 1},
		"ctrl":        {len(d.Ctrl()), 2},
		"xpos":        {len(d.XPos()), 5 * 3},
		"xmat":        {len(Array[float64](d, "xmat")), 5 * 9},
		"site_xpos":   {len(d.SiteXPos()), 3},
		"mocap_quat":  {len(d.MocapQuat()), 4},
		"sensordata":  {len(Array[float64](d, "sensordata")), 1 + 3 + 3},
		"body_mass":   {len(Array[float64](m, "body_mass")), 5},
		"geom_rgba":   {len(Array[float32](m, "geom_rgba")), 5 * 4},
		"key_qpos":    {len(Array[float64](m, "key_qpos")), 9},
		"jnt_limited": {len(Array[bool](m, "jnt_limited")), 3},
		"tex_data":    {len(Array[byte](m, "tex_data")), 0},
		"opt.gravity": {len(Array[float64](m, "opt.gravity")), 3},
		"cfrc_ext":    {len(Array[float64](d, "cfrc_ext")), 5 * 6},
	} {
		if got[0] != got[1] {
			t.Errorf("%s has %d values, want %d", name, got[0], got[1])
		}
	}
	if g := Array[float64](m, "opt.gravity"); g[2] != -9.81 || Array[float64](m, "opt.timestep")[0] != 0.005 || Array[int32](m, "vis.global.offwidth")[0] != 640 {
		t.Errorf("gravity %v, time step %v, off-screen width %d", g, Array[float64](m, "opt.timestep")[0], Array[int32](m, "vis.global.offwidth")[0])
	}
	if l := Array[bool](m, "jnt_limited"); l[0] || !l[1] {
		t.Errorf("limits of joints %v", l)
	}
	if got := Row(Array[float32](m, "geom_rgba"), 1, 4); got[0] != 0.8 || len(got) != 4 {
		t.Errorf("colour of geom 1: %v", got)
	}
}

// A name or type that the headers do not have is a bug of the caller and panics.
func TestArrayPanics(t *testing.T) {
	m := world(t)
	for name, use := range map[string]func(){
		"no such array": func() { Array[float64](m, "body_weight") },
		"of data":       func() { Array[float64](m, "qpos") },
		"a size":        func() { Array[int32](m, "nbody") },
		"another type":  func() { Array[float32](m, "body_mass") },
		"no such size":  func() { m.Size("body_mass") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			use()
		}()
	}
}

func TestWritesReachMuJoCo(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(ball, nil)
	must(t, err)
	defer m.Close()
	d := newData(t, m)
	Array[float64](m, "opt.gravity")[2] = 0
	d.QVel()[2] = 1
	must(t, d.Step(100))
	if z := d.QPos()[2]; z < 1.199 || z > 1.201 { // 1 m, 1 m/s, 100 steps of 2 ms, no gravity
		t.Errorf("height %v, want 1.2", z)
	}
}

// FuzzLoadXML compiles any text: a model or an error, never a crash.
func FuzzLoadXML(f *testing.F) {
	needLibrary(f)
	b, err := os.ReadFile("testdata/world.xml")
	must(f, err)
	f.Add(string(b))
	f.Add(ball)
	f.Add("<mujoco><include file='x'/></mujoco>")
	f.Fuzz(func(t *testing.T, xml string) {
		if m, err := LoadXML(xml, nil); err == nil {
			m.Close()
		}
	})
}
