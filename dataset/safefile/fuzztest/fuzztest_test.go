package fuzztest

import "testing"

var kept []byte

func TestReadCountsWhatWasAllocated(t *testing.T) {
	Read(t, 4, func() { kept = make([]byte, fixed-1<<20) }) // the runtime allocates too, 114 kB once
	before := allocated()
	kept = make([]byte, fixed+1<<20)
	if n := allocated() - before; n < fixed+1<<20 {
		t.Errorf("%d bytes counted of %d", n, fixed+1<<20)
	}
}
