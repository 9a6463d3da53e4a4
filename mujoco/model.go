package mujoco

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
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
	layout  *layout
	warning string
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

func newModel(c *mjc.CModel, warning string) *Model {
	h := &modelHandle{c: c}
	m := &Model{h: h.retain(), c: c, layout: newLayout(c), warning: oneLine(warning)}
	m.cleanup = runtime.AddCleanup(m, (*modelHandle).release, h)
	return m
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
		return nil, compileError("XML text", "the text is empty")
	}
	return compile("XML text", xml, "", files)
}

// LoadFS compiles the named MJCF file of a file system, which holds what it needs.
func LoadFS(fsys fs.FS, name string) (*Model, error) {
	files, err := collect(fsys)
	if err != nil {
		return nil, fmt.Errorf("mujoco: reading the files of %s: %w", name, err)
	}
	if _, err := fs.Stat(fsys, name); err != nil {
		return nil, fmt.Errorf("mujoco: opening the model: %w", err)
	}
	return compile(name, "", name, files)
}

// LoadFile compiles an MJCF file on disk; other files are found relative to it.
func LoadFile(path string) (*Model, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("mujoco: opening the model: %w", err)
	}
	return compile(path, "", path, nil)
}

func compile(source, xml, name string, files []mjc.Asset) (*Model, error) {
	if err := Open(); err != nil {
		return nil, err
	}
	c, warning, err := mjc.Compile(xml, name, files)
	if err != nil {
		return nil, compileError(source, err.Error())
	}
	return newModel(c, warning), nil
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

// LoadMJB reads what MJB wrote. MuJoCo reads its binary format trustingly: changed
// bytes can crash the process. Therefore a checksum stands at the end, and a file with
// another one, or without, is refused.
func LoadMJB(b []byte) (*Model, error) {
	if err := Open(); err != nil {
		return nil, err
	}
	n := len(b) - sha256.Size
	if n < 0 || sha256.Sum256(b[:n]) != [sha256.Size]byte(b[n:]) {
		return nil, compileError("a binary model", "its checksum is wrong (hint: write it again, from the XML)")
	}
	c, err := mjc.Load(b[:n])
	if err != nil {
		return nil, compileError("a binary model", err.Error())
	}
	return newModel(c, ""), nil
}

// MJB is the model in MuJoCo's binary format, which only the same version reads,
// followed by the SHA-256 of that. Loading it takes less time than compiling.
func (m *Model) MJB() ([]byte, error) {
	if m.c == nil {
		return nil, ErrClosed
	}
	b, err := mjc.Save(m.c)
	runtime.KeepAlive(m)
	if err != nil {
		return nil, &FatalError{"writing the model", err.Error()}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// Copy is another model with the same content; a change to one does not reach the other.
func (m *Model) Copy() (*Model, error) {
	if m.c == nil {
		return nil, ErrClosed
	}
	c, err := mjc.Copy(m.c)
	runtime.KeepAlive(m)
	if err != nil {
		return nil, &FatalError{"copying the model", err.Error()}
	}
	return newModel(c, m.warning), nil
}

// Warning is what the compiler said of the model, "" for most.
func (m *Model) Warning() string { return m.warning }

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
