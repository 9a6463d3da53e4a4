package mujoco

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain skips the examples if the library is missing, since an example cannot skip
// itself.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.run"); errors.Is(Open(), ErrNoLibrary) && f.Value.String() == "" {
		fmt.Println("mujoco: library not fetched: no examples")
		_ = f.Value.Set("^(Test|Fuzz)")
	}
	os.Exit(m.Run())
}
