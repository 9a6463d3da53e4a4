package stats

// Most tests are in an external test package, since their reference cases cover package
// geometry too, which imports this package.

const SignFlips = signFlips

var (
	ResampledMean  = resampledMean
	InnerBootstrap = bootstrap
	Heads          = heads
)
