package mujoco

import (
	"os"
	"testing"
)

// FuzzLoadXML compiles any text: a model or an error, never a crash.
func FuzzLoadXML(f *testing.F) {
	needLibrary(f)
	b, err := os.ReadFile("testdata/world.xml")
	must(f, err)
	f.Add(string(b))
	f.Add(ball)
	f.Add("<mujoco><include file='x'/></mujoco>")
	f.Fuzz(func(t *testing.T, xml string) {
		if m, err := LoadXML(xml, nil); err == nil {
			m.Close()
		}
	})
}
