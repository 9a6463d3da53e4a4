// Package render draws MuJoCo scenes off-screen, without a window system.
//
//	r, err := render.New(model, 224, 224)
//	...
//	defer r.Close()
//	frame := make([]byte, r.Bytes())
//	err = r.Render(ctx, data, 0, frame) // from camera 0; RGB, top row first
//
// OpenGL comes from EGL (a graphics card, or Mesa's software renderer on any machine)
// or from OSMesa, both opened at run time. MUJOCO_GL=egl or osmesa selects one; if it
// is unset, EGL is tried first. MUJOCO_EGL_DEVICE_ID selects an EGL device. The
// selection holds for the lifetime of the process, because MuJoCo resolves OpenGL's
// functions once. [Renderer.Info] reports what draws.
//
// A [Renderer] owns one context, one scene and one OS thread. Creating it costs as much
// as ten frames, so create it once for many episodes. Changes of the model's colours,
// positions and lights are visible in the next frame; changed textures, meshes and
// quality settings need a new Renderer. [Cache] keeps renderers for several models.
//
// Software OpenGL draws one frame at a time per process, however many renderers there
// are. To draw on all cores, use one worker process per core, each with
// LP_NUM_THREADS=0 in its environment. In software, frames are accelerated by three
// caches (shadow maps, visible faces, the first draw); they do not change any byte.
// The package draws what package mujoco simulates and contains nothing about tasks.
package render
