//go:build library

package main

import "C"

// The functions for other programs, which this import exports.
import _ "scalewm/cmd/libscalewm"

// scalewm_main runs the program with the arguments of the process, and ends the process. The
// launcher of the Python wheel calls it (cmd/libscalewm/program). A process that only uses the
// library's other functions does not.
//
//export scalewm_main
func scalewm_main() { main() }
