package main

// Each task registers itself in package envs when its package is imported. This list is
// the only place that names all of them.
import (
	_ "scalewm/envs/cube"
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
)
