package cube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"scalewm/envs/mjenv"
	"scalewm/mujoco"
)

// array returns one of the model's arrays as bytes and as numbers; ok is false if its
// elements are not of type T.
func array[T mujoco.Element](m *mujoco.Model, name string) (b []byte, numbers []float64, ok bool) {
	defer func() { ok = recover() == nil }()
	a := mujoco.Array[T](m, name)
	for i := range a {
		if v := reflect.ValueOf(a[i]); v.CanConvert(reflect.TypeFor[float64]()) {
			numbers = append(numbers, v.Convert(reflect.TypeFor[float64]()).Float())
		}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a))), len(a)*int(unsafe.Sizeof(*new(T)))), numbers, true
}

// Every array and option of the model equals OGBench's compiled model bit for bit
// (testdata/make_model.py).
func TestModelIsTheOriginals(t *testing.T) {
	m := made(t).w.Data.Model()
	b, err := os.ReadFile("testdata/model.json")
	must(t, err)
	var theirs map[string]any
	must(t, json.Unmarshal(b, &theirs))
	for name, want := range theirs {
		var raw []byte
		var got []float64
		found := false
		for _, as := range []func(*mujoco.Model, string) ([]byte, []float64, bool){array[float64], array[float32], array[int32], array[int64], array[byte], array[bool]} {
			if b, numbers, ok := as(m, name); ok {
				raw, got, found = b, numbers, true
			}
		}
		if !found {
			t.Errorf("no field %s", name)
			continue
		}
		switch want := want.(type) {
		case string:
			if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:8]) != want {
				t.Errorf("%s has other bytes", name)
			}
		case []any:
			if !slices.EqualFunc(want, got, func(a any, b float64) bool { return a == b }) {
				t.Errorf("%s is %v, the original's %v", name, got, want)
			}
		}
	}
}

// copied returns an in-memory file system with the model files; edit changes one of them.
func copied(t *testing.T) fstest.MapFS {
	t.Helper()
	made(t)
	dir, err := findFiles()
	must(t, err)
	out := fstest.MapFS{}
	for _, p := range []string{"floor_wall.xml", "cube_outer.xml", "cube_inner.xml", "universal_robots_ur5e/ur5e.xml", "robotiq_2f85/2f85.xml"} {
		b, err := os.ReadFile(filepath.Join(dir, p))
		must(t, err)
		out[p] = &fstest.MapFile{Data: b}
	}
	return out
}

// usualLook is the look without variation.
func usualLook() mjenv.Look {
	l := mjenv.Look{}
	for _, f := range factors {
		l[f.Name] = f.Init
	}
	return l
}

// If the files lack something, the error names it.
func TestBrokenFiles(t *testing.T) {
	for what, c := range map[string]struct {
		file, old, new, want string
	}{
		"no arm":             {"universal_robots_ur5e/ur5e.xml", "", "", "ur5e.xml"},
		"not XML":            {"robotiq_2f85/2f85.xml", "<mujoco", "<<", "2f85.xml"},
		"no flange":          {"universal_robots_ur5e/ur5e.xml", "attachment_site", "elsewhere", "attachment_site"},
		"no cube":            {"cube_inner.xml", "object_0", "thing", "object_0"},
		"no mesh":            {"floor_wall.xml", "wall_3", "wall_3", "base_0.obj"}, // the copy has no mesh files
		"no motor":           {"universal_robots_ur5e/ur5e.xml", "<actuator>", "<actuator><broken/>", "broken"},
		"an unknown element": {"cube_outer.xml", "<worldbody>", "<worldbody><nothing/>", "nothing"},
	} {
		files := copied(t)
		if c.old == "" {
			delete(files, c.file)
		} else {
			files[c.file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(files[c.file].Data), c.old, c.new))}
		}
		if _, err := compileFrom(files, usualLook()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", what, err, c.want)
		}
	}
	if _, err := compileFrom(fstest.MapFS{}, usualLook()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no files: %v", err)
	}
}

// parse parses a document.
func parse(t testing.TB, text string) *element {
	t.Helper()
	e, err := readMJCF(fstest.MapFS{"a.xml": {Data: []byte(text)}}, "a.xml")
	must(t, err)
	return e
}

// An attached document keeps its order. Its names and references get the prefix, its options
// take precedence, and its meshes are found relative to the root.
func TestAttach(t *testing.T) {
	child := parse(t, `<mujoco><!-- no --><compiler meshdir="m" angle="radian"/><option cone="elliptic"/>
<default><default class="c"><geom size="1"/></default></default>
<asset><mesh file="a.obj"/><mesh name="b" class="c" file="x.stl"/></asset>
<worldbody><body name="p" childclass="c"><geom mesh="a" class="c"/></body></worldbody></mujoco>`)
	child.locate("dir")
	root := parse(t, `<mujoco><option cone="pyramidal" gravity="0 0 0"/><worldbody><geom name="floor"/></worldbody></mujoco>`)
	root.attach(root.section("worldbody"), child, "k/")
	got, err := xml.Marshal(root)
	must(t, err)
	want := `<mujoco><option cone="elliptic" gravity="0 0 0"></option>` +
		`<worldbody><geom name="floor"></geom><body name="k/"><body name="k/p" childclass="k/c"><geom mesh="k/a" class="k/c"></geom></body></body></worldbody>` +
		`<compiler meshdir="" angle="radian"></compiler>` +
		`<default><default class="k/c"><geom size="1"></geom></default></default>` +
		`<asset><mesh file="dir/m/a.obj" name="k/a"></mesh><mesh name="k/b" class="k/c" file="dir/m/x.stl"></mesh></asset></mujoco>`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	root.drop("geom", "asset")
	if root.find("geom", "floor") != nil || len(root.section("asset").Children) != 0 || root.find("body", "k/p") == nil {
		t.Error("drop leaves what it should remove, or the reverse")
	}
}

// FuzzMJCF checks that no file makes the assembly panic, and that the result is XML.
func FuzzMJCF(f *testing.F) {
	f.Add([]byte(`<mujoco><worldbody><body name="wrist_3_link"><site name="attachment_site" pos="0 0 1"/></body></worldbody></mujoco>`))
	f.Add([]byte(`<mujoco><asset><mesh file="a.obj"/><texture name="grid"/></asset><worldbody><geom name="object_0"/></worldbody></mujoco>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		files := fstest.MapFS{}
		for _, p := range []string{"floor_wall.xml", "cube_outer.xml", "cube_inner.xml", "universal_robots_ur5e/ur5e.xml", "robotiq_2f85/2f85.xml"} {
			files[p] = &fstest.MapFile{Data: b}
		}
		var scene, arm string
		var err, armErr error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		scene, err = assemble(files, usualLook())
		arm, armErr = assembleArm(files)
		runtime.ReadMemStats(&after)
		// The memory that dataset/safefile/fuzztest allows a reader, for five files of this size.
		if n, limit := after.TotalAlloc-before.TotalAlloc, uint64(512*5*len(b)+8<<20); n > limit {
			t.Errorf("assembling five files of %d bytes allocated %d bytes, more than %d", len(b), n, limit)
		}
		if err != nil || armErr != nil {
			return
		}
		for _, text := range []string{scene, arm} {
			if err := xml.Unmarshal([]byte(text), new(element)); err != nil {
				t.Errorf("%v in %q", err, text)
			}
		}
	})
}
