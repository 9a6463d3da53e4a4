package model_test

import (
	"fmt"

	"scalewm/model"
)

// The loss terms of a method.
func ExampleLookUp() {
	m, err := model.LookUp("scale")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, term := range m.Terms {
		fmt.Println(m.Title, term.Name, term.UsesQ)
	}
	// Output:
	// SCALE prediction false
	// SCALE sigreg false
	// SCALE correlation true
}
