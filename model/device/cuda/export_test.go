package cuda

// NewOf is New for a GPU that so many blocks of a product keep busy.
var NewOf = newEngine
