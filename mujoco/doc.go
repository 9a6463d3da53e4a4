// Package mujoco simulates rigid bodies with MuJoCo 3.11.0. It is a binding to the
// C library, not a port: all dynamics are MuJoCo's own.
//
// A [Model] is compiled from MJCF and normally does not change during a simulation. A
// [Data] is one simulation of it: positions, velocities, controls and everything
// derived from them. Many Data of one Model may step concurrently, but each Data
// must be used by one goroutine at a time.
//
//	m, err := mujoco.LoadXML(xml, nil)
//	...
//	defer m.Close()
//	d, err := m.NewData()
//	...
//	defer d.Close()
//	qpos := d.QPos()
//	for range 100 {
//		if err := d.Step(1); err != nil {
//			return err
//		}
//		fmt.Println(d.Time(), qpos[0])
//	}
//
// # Arrays
//
// [Array] returns MuJoCo's own arrays by the names in its documentation. Methods such
// as [Data.QPos] return the arrays that most tasks use. The slices alias MuJoCo's
// memory, so a write to one is visible to MuJoCo without a copy. The address of an
// array never changes, so a caller may fetch a slice once and reuse it. The slice is
// valid until Close, and only while the Data or Model is reachable: store the Data or
// Model next to the slice.
//
// # Errors
//
// MuJoCo terminates the process on a fatal error. This package intercepts such errors
// and returns a *[FatalError] instead; the Data then rejects further calls until
// [Data.Reset], and other Data are not affected. A NaN or huge value in the state
// gives a [PhysicsError] for which errors.Is(err, [ErrDiverged]) is true. The package
// installs MuJoCo's process-wide log handler, so nothing is printed and no log file is
// written.
//
// # The library
//
// libmujoco is opened at run time, when the first model is loaded, and is not linked:
// programs start on machines that do not have it. [Open] documents the search path.
// This package contains nothing about tasks, data sets or images. Package render draws.
package mujoco
