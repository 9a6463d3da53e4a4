// Package render draws MuJoCo scenes without a window.
//
//	r, err := render.New(model, 224, 224)
//	...
//	defer r.Close()
//	frame := make([]byte, r.Bytes())
//	err = r.Render(ctx, data, 0, frame) // from camera 0; RGB, top row first
//
// OpenGL comes from EGL (a graphics card, or Mesa's software on any machine) or from
// OSMesa, opened at run time. MUJOCO_GL=egl or osmesa chooses; unset, EGL is tried
// first. MUJOCO_EGL_DEVICE_ID chooses among EGL's devices. One choice holds for the
// whole process, because MuJoCo resolves OpenGL once. [Renderer.Info] says what is
// drawing.
//
// A [Renderer] keeps one context, one scene and one OS thread, and is made once for
// many episodes: making one costs as much as ten frames. Changes of the model's colours,
// positions and lights show in the next frame; changed textures, meshes and quality
// settings need a new Renderer.
//
// Software OpenGL draws one frame at a time in a process, whatever the number of
// renderers: use worker processes, each with LP_NUM_THREADS=0 in its environment, to
// draw on all cores. The package draws what package mujoco simulates and knows no task.
package render
