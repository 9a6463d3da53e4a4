package tensorfile_test

import (
	"bytes"
	"fmt"

	"scalewm/dataset/tensorfile"
)

// Writes tensors in both formats and reads them back.
func Example() {
	tensors := []tensorfile.Tensor{{Name: "linear.weight", Shape: []int{2, 2}, F32: []float32{1, 2, 3, 4}}}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return tensorfile.Write(b, map[string]string{"kind": "example"}, tensors) },
		func(b *bytes.Buffer) error { return tensorfile.WritePT(b, tensors) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			fmt.Println(err)
			return
		}
		parse := tensorfile.Parse
		if bytes.HasPrefix(b.Bytes(), []byte("PK")) { // a zip archive, as torch.save writes
			parse = tensorfile.ParsePT
		}
		f, err := parse(b.Bytes())
		if err != nil {
			fmt.Println(err)
			return
		}
		values, err := f.Float64("linear.weight")
		fmt.Println(f.PT, f.Names(), f.DType("linear.weight"), values, err)
	}
	// Output:
	// false [linear.weight] F32 [1 2 3 4] <nil>
	// true [linear.weight] F32 [1 2 3 4] <nil>
}
