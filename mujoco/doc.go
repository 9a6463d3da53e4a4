// Package mujoco simulates rigid bodies with MuJoCo 3.11.0, the C library itself.
//
// A [Model] is compiled from MJCF and does not change while it is simulated. A
// [Data] is one simulation of it. Many Data of one Model may step at the same time,
// each on one goroutine at a time.
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
// [Array] gives MuJoCo's own arrays by the names in its documentation, and methods such as
// [Data.QPos] those that most tasks use. Nothing is copied: what is written there is what MuJoCo sees. The address of an array does
// not change, so that a caller may fetch it once. It is valid until Close, and only
// while the Data or Model is reachable: keep that beside the slice.
//
// # Errors
//
// MuJoCo ends the process when it meets a fatal error. Here every such error is a
// *[FatalError], the Data refuses further work until [Data.Reset], and other Data are
// not concerned. A state that went bad is a [PhysicsError] for which
// errors.Is(err, [ErrDiverged]) holds. The package owns MuJoCo's process-wide log
// handler; nothing is printed and no log file is written.
//
// # The library
//
// libmujoco is opened when the first model is loaded, never linked: programs start
// without it. See [Open] for where it is looked for. The package knows nothing of
// tasks, data sets or images; images are package render's.
package mujoco
