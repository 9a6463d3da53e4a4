package main

// Tasks register themselves when they are linked in.
import (
	_ "scalewm/envs/cube"
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
)
