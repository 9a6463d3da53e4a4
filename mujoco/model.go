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

// Model is a compiled model. Any number of goroutines may read it and step its
// Data; a goroutine that writes to its arrays must be the only one that uses it.
type Model struct {
	h       *modelHandle
	c       *mjc.CModel // nil after Close
	layout  layout
	nsite   int
	nv      int
	cleanup runtime.Cleanup
}

// modelHandle counts who needs the C model: the Model and each of its Data. It is
// freed after the last, so that closing in any order is safe.
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

// LoadXML compiles MJCF text. Files that it names (meshes, textures, includes) are
// looked for in assets by their path there, which may be nil. The error of a bad
// model is a *CompileError.
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

// collect reads every file of fsys, which may be nil.
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

// Close frees the model, once its Data are closed too. More calls do nothing.
func (m *Model) Close() {
	if m.c != nil {
		m.c = nil
		m.cleanup.Stop()
		m.h.release()
	}
}

// Share lends the C model to package render until release is called.
func (m *Model) Share() (c *mjc.CModel, release func(), err error) {
	if m.c == nil {
		return nil, nil, ErrClosed
	}
	return m.c, m.h.retain().release, nil
}

// base is the address of mjModel.
func (m *Model) base() unsafe.Pointer {
	if m.c == nil {
		panic("mujoco: use of a closed Model")
	}
	return unsafe.Pointer(m.c)
}

// ObjType is a kind of named object, as MuJoCo numbers them.
type ObjType int

// The kinds that tasks look for.
const (
	ObjBody   ObjType = 1
	ObjGeom   ObjType = 5
	ObjSite   ObjType = 6
	ObjCamera ObjType = 7
)

func (t ObjType) String() string {
	if s, ok := objNames[t]; ok {
		return s
	}
	return fmt.Sprintf("object type %d", int(t))
}

var objNames = map[ObjType]string{ObjBody: "body", ObjGeom: "geom", ObjSite: "site", ObjCamera: "camera"}

// ID is the number of a named object: its row in the arrays of its kind.
func (m *Model) ID(t ObjType, name string) (int, error) {
	if m.c == nil {
		return 0, ErrClosed
	}
	id := mjc.ID(m.c, int(t), name)
	runtime.KeepAlive(m)
	if id < 0 {
		return 0, fmt.Errorf("mujoco: the model has no %s named %q", t, name)
	}
	return id, nil
}
