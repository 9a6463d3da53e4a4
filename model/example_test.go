package model_test

import (
	"fmt"

	"scalewm/model"
)

// The loss terms of a method, with their weights on one task.
func ExampleLookUp() {
	m, err := model.LookUp("scale")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, term := range m.Terms {
		fmt.Println(m.Title, term.Name, term.On("reacher"))
	}
	// Output:
	// SCALE prediction 1
	// SCALE sigreg 0.09
	// SCALE correlation 0.15
}
