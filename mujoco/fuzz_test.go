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

// FuzzLoadMJB reads any bytes.
func FuzzLoadMJB(f *testing.F) {
	needLibrary(f)
	m, err := LoadXML(ball, nil)
	must(f, err)
	b, err := m.MJB()
	must(f, err)
	m.Close()
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := LoadMJB(b); err == nil {
			m.Close()
		}
	})
}
