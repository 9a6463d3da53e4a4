package mujoco

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"unsafe"

	"scalewm/mujoco/internal/mjc"
)

// Model is a compiled model (mjModel). Any number of goroutines may read it and step
// its Data. A goroutine that writes to its arrays must be the only one using it.
type Model struct {
	h       *modelHandle
	c       *mjc.CModel // same as h.c; nil after Close
	layout  layout
	nsite   int
	nv      int
	cleanup runtime.Cleanup // frees h if the Model becomes unreachable without Close
}

// modelHandle counts the references to the C model: one from the Model, one from each
// of its Data, and one from each renderer. The last release frees it, so they may be
// closed in any order. It is a separate allocation because a runtime.Cleanup must not
// refer to the object it is attached to.
type modelHandle struct {
	c    *mjc.CModel
	refs atomic.Int32
}

func (h *modelHandle) retain() *modelHandle { h.refs.Add(1); return h }

func (h *modelHandle) release() {
	if h.refs.Add(-1) == 0 {
		mjc.FreeModel(h.c)
	}
}

// LoadXML compiles MJCF text. Files that the text refers to (meshes, textures,
// includes) are looked up by path in assets, which may be nil. If MuJoCo rejects the
// model, the error is a *CompileError. If the library is missing, it wraps
// ErrNoLibrary. The caller must Close the model.
func LoadXML(xml string, assets fs.FS) (*Model, error) {
	files, err := collect(assets)
	if err != nil {
		return nil, fmt.Errorf("mujoco: reading the assets: %w", err)
	}
	if xml == "" {
		return nil, compileError("the text is empty")
	}
	if err := Open(); err != nil {
		return nil, err
	}
	c, err := mjc.Compile(xml, files)
	if err != nil {
		return nil, compileError(err.Error())
	}
	h := &modelHandle{c: c}
	m := &Model{h: h.retain(), c: c, layout: newLayout(c)}
	m.nsite, m.nv = m.Size("nsite"), m.Size("nv")
	m.cleanup = runtime.AddCleanup(m, (*modelHandle).release, h)
	return m, nil
}

// collect reads every file of fsys into memory, because MuJoCo's virtual file system
// has no callbacks and must be filled before compilation. A nil fsys has no files.
func collect(fsys fs.FS) ([]mjc.Asset, error) {
	if fsys == nil {
		return nil, nil
	}
	var out []mjc.Asset
	err := fs.WalkDir(fsys, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, path)
		out = append(out, mjc.Asset{Name: filepath.ToSlash(path), Bytes: b})
		return err
	})
	return out, err
}

// Close releases the model. The C memory is freed when its Data and renderers are
// closed too. Calling Close again does nothing.
func (m *Model) Close() {
	if m.c != nil {
		m.c = nil
		m.cleanup.Stop()
		m.h.release()
	}
}

// Share returns the C model for package render and keeps it alive until release is
// called, even if the Model is closed before.
func (m *Model) Share() (c *mjc.CModel, release func(), err error) {
	if m.c == nil {
		return nil, nil, ErrClosed
	}
	return m.c, m.h.retain().release, nil
}

// base returns the address of the C struct mjModel.
func (m *Model) base() unsafe.Pointer {
	if m.c == nil {
		panic("mujoco: use of a closed Model")
	}
	return unsafe.Pointer(m.c)
}

// ObjType is a kind of named object, with MuJoCo's numbering (mjtObj).
type ObjType int

// The kinds of objects that tasks look up.
const (
	ObjBody   ObjType = 1
	ObjGeom   ObjType = 5
	ObjSite   ObjType = 6
	ObjCamera ObjType = 7
)

// String returns MuJoCo's element name of the kind, such as "body".
func (t ObjType) String() string {
	if s, ok := objNames[t]; ok {
		return s
	}
	return fmt.Sprintf("object type %d", int(t))
}

var objNames = map[ObjType]string{ObjBody: "body", ObjGeom: "geom", ObjSite: "site", ObjCamera: "camera"}

// ID returns the index of a named object, which is its row in the arrays of its kind.
func (m *Model) ID(t ObjType, name string) (int, error) {
	if m.c == nil {
		return 0, ErrClosed
	}
	id := mjc.ID(m.c, int(t), name)
	// Without this, m could be collected, and its cleanup free the C model, during the call.
	runtime.KeepAlive(m)
	if id < 0 {
		return 0, fmt.Errorf("mujoco: the model has no %s named %q", t, name)
	}
	return id, nil
}
