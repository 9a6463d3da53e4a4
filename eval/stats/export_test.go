package stats

// Tests stand outside the package, since its reference cases judge package
// geometry too, which imports it.

const SignFlips = signFlips

var (
	ResampledMean  = resampledMean
	InnerBootstrap = bootstrap
	Heads          = heads
)
