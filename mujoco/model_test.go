package mujoco

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
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
	files := fstest.MapFS{
		"scene.xml":      {Data: []byte(withMesh)},
		"whole.xml":      {Data: []byte(including)},
		"parts/ball.xml": {Data: []byte(ball)},
		"meshes/t.obj":   {Data: []byte(tetrahedron)},
	}
	below := strings.Replace(withMesh, "<asset>", `<compiler meshdir="m"/><asset>`, 1)
	files["robots/below.xml"] = &fstest.MapFile{Data: []byte(below)}
	files["robots/m/meshes/t.obj"] = files["meshes/t.obj"]
	files["robots/beside.xml"] = &fstest.MapFile{Data: []byte(strings.Replace(withMesh, "meshes/", "../meshes/", 1))}
	files["dot.xml"] = &fstest.MapFile{Data: []byte(strings.Replace(including, "parts/", "./parts/", 1))}
	disk := t.TempDir()
	must(t, os.CopyFS(disk, files))
	for name, tc := range map[string]struct {
		load           func() (*Model, error)
		bodies, meshes int
	}{
		"text":             {func() (*Model, error) { return LoadXML(ball, nil) }, 2, 0},
		"text with assets": {func() (*Model, error) { return LoadXML(withMesh, files) }, 1, 1},
		"file system":      {func() (*Model, error) { return LoadFS(files, "scene.xml") }, 1, 1},
		"meshdir":          {func() (*Model, error) { return LoadFS(files, "robots/below.xml") }, 1, 1},
		"folder above":     {func() (*Model, error) { return LoadFS(files, "robots/beside.xml") }, 1, 1},
		"./":               {func() (*Model, error) { return LoadFS(files, "dot.xml") }, 2, 0},
		"include":          {func() (*Model, error) { return LoadFS(files, "whole.xml") }, 2, 0},
		"disk":             {func() (*Model, error) { return LoadFile(filepath.Join(disk, "scene.xml")) }, 1, 1},
		"disk, include":    {func() (*Model, error) { return LoadFile(filepath.Join(disk, "whole.xml")) }, 2, 0},
	} {
		m, err := tc.load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.NBody() != tc.bodies || m.NMesh() != tc.meshes {
			t.Errorf("%s: %d bodies, %d meshes, want %d, %d", name, m.NBody(), m.NMesh(), tc.bodies, tc.meshes)
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
		"missing file":        {func() (*Model, error) { return LoadFile("testdata/absent.xml") }, []string{"absent.xml"}, 0},
		"missing in fs":       {func() (*Model, error) { return LoadFS(fstest.MapFS{}, "absent.xml") }, []string{"absent.xml"}, 0},
		"binary, empty":       {func() (*Model, error) { return LoadMJB(nil) }, []string{"binary"}, 0},
		"binary, other bytes": {func() (*Model, error) { return LoadMJB(make([]byte, 1000)) }, []string{"binary"}, 0},
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

func TestCompilerWarning(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(ball, nil)
	must(t, err)
	defer m.Close()
	if m.Warning() != "" {
		t.Errorf("a sound model has the warning %q", m.Warning())
	}
	// MuJoCo warns where an attached model wants other options than its parent's.
	child := `<mujoco><option timestep="0.01"/><worldbody><body name="b"><geom size=".1"/></body></worldbody></mujoco>`
	odd, err := LoadXML(`<mujoco><asset><model name="c" file="c.xml"/></asset>
<worldbody><attach model="c" body="b" prefix="p"/></worldbody></mujoco>`, fstest.MapFS{"c.xml": {Data: []byte(child)}})
	must(t, err)
	defer odd.Close()
	if odd.Warning() == "" {
		t.Error("no warning where MuJoCo has one")
	}
}

func TestMJB(t *testing.T) {
	m := world(t)
	b, err := m.MJB()
	must(t, err)
	again, err := LoadMJB(b)
	must(t, err)
	defer again.Close()
	b2, err := again.MJB()
	must(t, err)
	if string(b) != string(b2) {
		t.Error("a saved and loaded model is saved differently")
	}
	for _, n := range []int{0, 3, 100, 2000, len(b) / 2, len(b) - 1} {
		if torn, err := LoadMJB(b[:n]); err == nil {
			t.Errorf("a model of %d bytes loads from the first %d", len(b), n)
			torn.Close()
		}
	}
	// Of a wrong version, or with a wrong size, but a right checksum: MuJoCo's own words.
	for name, bad := range map[string][]byte{"version": append([]byte{0}, b[1:len(b)-32]...), "size": b[:len(b)/2]} {
		sum := sha256.Sum256(bad)
		if m, err := LoadMJB(append(bad[:len(bad):len(bad)], sum[:]...)); err == nil || strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %v", name, err)
			m.Close()
		} else {
			t.Log(err)
		}
	}
}

func TestCopyIsApart(t *testing.T) {
	m := world(t)
	c, err := m.Copy()
	must(t, err)
	defer c.Close()
	*c.OptTimestep() = 0.001
	c.BodyMass()[1] = 7
	if *m.OptTimestep() != 0.005 || m.BodyMass()[1] == 7 {
		t.Error("writing to a copy reached the original")
	}
	d := newData(t, c)
	must(t, d.Step(1))
	if d.Time() != 0.001 {
		t.Errorf("time %v after a step of the copy, want its 0.001", d.Time())
	}
}

func TestNames(t *testing.T) {
	m := world(t)
	for kind, names := range map[ObjType][]string{
		ObjBody: {"world", "upper", "lower", "box", "marker"}, ObjXBody: {"world", "upper"},
		ObjJoint: {"shoulder", "elbow", "box"}, ObjGeom: {"floor", "upper", "lower", "box", "marker"},
		ObjSite: {"tip"}, ObjCamera: {"side"}, ObjLight: {"sun"}, ObjActuator: {"shoulder", "elbow"},
		ObjSensor: {"elbow", "tip", "acceleration"}, ObjKey: {"lifted"},
	} {
		for id, name := range names { // MuJoCo numbers them in the order of the file
			if got, err := m.ID(kind, name); err != nil || got != id {
				t.Errorf("%s %q is %d (%v), want %d", kind, name, got, err, id)
			}
			if got := m.Name(kind, id); got != name {
				t.Errorf("%s %d is %q, want %q", kind, id, got, name)
			}
		}
	}
	if _, err := m.ID(ObjSite, "nobody"); err == nil || !strings.Contains(err.Error(), `no site named "nobody"`) {
		t.Errorf("an unknown name: %v", err)
	}
	if s := m.Name(ObjBody, 99) + m.Name(ObjBody, -1) + m.Name(ObjType(77), 0); s != "" {
		t.Errorf("objects that do not exist are named %q", s)
	}
	if j, err := m.Joint("box"); err != nil || j != (Joint{ID: 2, Type: Free, QPos: 2, QVel: 2, NPos: 7, NVel: 6}) {
		t.Errorf("joint box: %+v, %v", j, err)
	}
	if s, err := m.Sensor("acceleration"); err != nil || s != (Sensor{2, 4, 3}) {
		t.Errorf("sensor acceleration: %+v, %v", s, err)
	}
	if _, err := m.Joint("tip"); err == nil {
		t.Error("a site is found as a joint")
	}
	if _, err := m.Sensor("box"); err == nil {
		t.Error("a body is found as a sensor")
	}
}

func TestViewsHaveMuJoCosShapes(t *testing.T) {
	m := world(t)
	d := newData(t, m)
	for name, got := range map[string][2]int{ // [length, wanted]: from world.xml by hand
		"qpos":        {len(d.QPos()), 2 + 7},
		"qvel":        {len(d.QVel()), 2 + 6},
		"act":         {len(d.Act()), 1},
		"ctrl":        {len(d.Ctrl()), 2},
		"xpos":        {len(d.XPos()), 5 * 3},
		"xmat":        {len(d.XMat()), 5 * 9},
		"site_xpos":   {len(d.SiteXPos()), 3},
		"mocap_quat":  {len(d.MocapQuat()), 4},
		"sensordata":  {len(d.Sensordata()), 1 + 3 + 3},
		"body_mass":   {len(m.BodyMass()), 5},
		"geom_rgba":   {len(m.GeomRGBA()), 5 * 4},
		"key_qpos":    {len(m.KeyQPos()), 9},
		"jnt_limited": {len(m.JntLimited()), 3},
		"tex_data":    {len(m.TexData()), 0},
		"opt.gravity": {len(m.OptGravity()), 3},
		"cfrc_ext":    {len(d.CFrcExt()), 5 * 6},
	} {
		if got[0] != got[1] {
			t.Errorf("%s has %d values, want %d", name, got[0], got[1])
		}
	}
	if g := m.OptGravity(); g[2] != -9.81 || *m.OptTimestep() != 0.005 || *m.VisGlobalOffwidth() != 640 {
		t.Errorf("gravity %v, time step %v, off-screen width %d", g, *m.OptTimestep(), *m.VisGlobalOffwidth())
	}
	if l := m.JntLimited(); l[0] || !l[1] {
		t.Errorf("limits of joints %v", l)
	}
	if got := Row(m.GeomRGBA(), 1, 4); got[0] != 0.8 || len(got) != 4 {
		t.Errorf("colour of geom 1: %v", got)
	}
}

func TestWritesReachMuJoCo(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(ball, nil)
	must(t, err)
	defer m.Close()
	d := newData(t, m)
	m.OptGravity()[2] = 0
	d.QVel()[2] = 1
	must(t, d.Step(100))
	if z := d.QPos()[2]; z < 1.199 || z > 1.201 { // 1 m, 1 m/s, 100 steps of 2 ms, no gravity
		t.Errorf("height %v, want 1.2", z)
	}
}

func TestSetConst(t *testing.T) {
	needLibrary(t)
	m, err := LoadXML(ball, nil)
	must(t, err)
	defer m.Close()
	d := newData(t, m)
	m.BodyMass()[1] *= 2
	must(t, d.SetConst())
	if m.BodySubtreemass()[0] != m.BodyMass()[1] {
		t.Errorf("mass of everything %v, want %v", m.BodySubtreemass()[0], m.BodyMass()[1])
	}
}
