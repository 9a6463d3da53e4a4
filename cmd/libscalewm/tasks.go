package libscalewm

// Imported tasks register themselves.
import (
	_ "scalewm/envs/cube"
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
)
