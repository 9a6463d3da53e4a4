package render

import (
	"fmt"

	"scalewm/mujoco/internal/mjc"
)

// Option is something that a scene shows or leaves out.
type Option struct {
	what, index int
	name        string
}

// Effects of the renderer; shadows, reflections, sky box and culling are on by default.
var (
	Shadow     = Option{mjc.RenderFlag, 0, "shadow"}
	Wireframe  = Option{mjc.RenderFlag, 1, "wireframe"}
	Reflection = Option{mjc.RenderFlag, 2, "reflection"}
	Skybox     = Option{mjc.RenderFlag, 4, "skybox"}
	Fog        = Option{mjc.RenderFlag, 5, "fog"}
	Haze       = Option{mjc.RenderFlag, 6, "haze"}
)

// Elements of the model; textures, static bodies and skins are on by default.
var (
	ConvexHull   = Option{mjc.VisualFlag, 0, "convex hull"}
	Texture      = Option{mjc.VisualFlag, 1, "texture"}
	Joints       = Option{mjc.VisualFlag, 2, "joints"}
	Actuators    = Option{mjc.VisualFlag, 4, "actuators"}
	ContactPoint = Option{mjc.VisualFlag, 14, "contact points"}
	ContactForce = Option{mjc.VisualFlag, 16, "contact forces"}
	Transparent  = Option{mjc.VisualFlag, 18, "transparent"}
	Static       = Option{mjc.VisualFlag, 22, "static bodies"}
)

// GeomGroup is the geoms of group i, 0 to 5; the first three are shown by default.
func GeomGroup(i int) Option { return Option{mjc.GeomGroup, i, fmt.Sprintf("geom group %d", i)} }

// SiteGroup is the sites of group i.
func SiteGroup(i int) Option { return Option{mjc.SiteGroup, i, fmt.Sprintf("site group %d", i)} }

// Show turns an option on or off for the frames that follow.
func (r *Renderer) Show(o Option, on bool) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.work == nil || r.stuck != nil {
		return ErrClosed
	}
	return r.do(func() error {
		if !mjc.SetFlag(r.r, o.what, o.index, on) {
			return fmt.Errorf("render: there is no %s", o.name)
		}
		return nil
	})
}
