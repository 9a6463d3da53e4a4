package main

import (
	"bytes"
	"math"
	"testing"

	"scalewm/eval/results"
)

// Lists and maps without entries are never null, at any depth. Omitted fields, values with
// their own MarshalJSON and nil pointers are unchanged.
func TestEmptyListsAreNotNull(t *testing.T) {
	type Inner struct {
		List    []string
		Left    []int `json:",omitempty"`
		Nothing *int
		Bytes   []byte
		hidden  []int
	}
	type outer struct {
		Inner
		Map   map[string][]int
		Any   any
		At    *Inner
		All   []Inner
		NaN   results.Number
		Empty map[string]int
	}
	var b bytes.Buffer
	c := &command{stdout: &b}
	v := outer{Map: map[string][]int{"a": nil}, Any: Inner{}, At: &Inner{hidden: []int{1}}, All: []Inner{{List: []string{"x"}}}, NaN: results.Number(math.NaN())}
	if err := c.printJSON(v); err != nil {
		t.Fatal(err)
	}
	const plain = `{"List":[],"Nothing":null,"Bytes":""}`
	want := `{"List":[],"Nothing":null,"Bytes":"","Map":{"a":[]},"Any":` + plain + `,"At":` + plain + `,"All":[{"List":["x"],"Nothing":null,"Bytes":""}],"NaN":null,"Empty":{}}` + "\n"
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}
