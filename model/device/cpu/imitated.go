//go:build imitated

package cpu

// #cgo CFLAGS: -DIMITATED=1 -Wno-psabi
import "C"
