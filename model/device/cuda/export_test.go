package cuda

// NewOf is New for a GPU that the given number of blocks of a GEMM keeps busy.
var NewOf = newEngine
