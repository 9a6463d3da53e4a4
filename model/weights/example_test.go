package weights_test

import (
	"fmt"

	"scalewm/model/weights"
)

// The name of a vision transformer's tensor in version 5 of transformers.
func ExampleTransformers5() {
	fmt.Println(weights.Transformers5("encoder.encoder.layer.0.attention.output.dense.weight"))
	// Output: encoder.layers.0.attention.o_proj.weight
}
