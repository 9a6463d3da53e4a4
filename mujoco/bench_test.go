package mujoco

import (
	"syscall"
	"testing"
	"time"
)

// reacher is a model similar to dm_control's reacher: two hinges, two motors, no contact.
const reacher = `<mujoco><option timestep="0.02"><flag contact="disable"/></option><worldbody>
<body><joint name="a" damping="0.01" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 .12 0 0" size=".01"/>
<body pos=".12 0 0"><joint name="b" damping="0.01" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>
<body pos=".1 0 0"><geom size=".01"/></body></body></body></worldbody>
<actuator><motor joint="a" gear=".05"/><motor joint="b" gear=".05"/></actuator></mujoco>`

// BenchmarkStep reports the rate of Step(1) in a Go loop, the best of 20 rounds, and its
// ratio to the rate of one Step(n), whose loop runs in C.
func BenchmarkStep(b *testing.B) {
	needLibrary(b)
	m, err := LoadXML(reacher, nil)
	must(b, err)
	defer m.Close()
	d := newData(b, m)
	b.ReportAllocs()
	ctrl := d.Ctrl()
	for b.Loop() {
		ctrl[0] = 0.1
		if err := d.Step(1); err != nil {
			b.Fatal(err)
		}
	}
	const n = 20_000
	single, inC := time.Hour, time.Hour
	for range 20 {
		start := cpuTime()
		for range n {
			ctrl[0] = 0.1
			if err := d.Step(1); err != nil {
				b.Fatal(err)
			}
		}
		middle := cpuTime()
		if err := d.Step(n); err != nil {
			b.Fatal(err)
		}
		single, inC = min(single, middle-start), min(inC, cpuTime()-middle)
	}
	b.ReportMetric(n/single.Seconds(), "steps/cpu-s")
	b.ReportMetric(float64(inC)/float64(single), "of-C-loop")
}

// cpuTime returns the CPU time of this process, which other load affects less than wall time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNewData measures creating and closing a Data.
func BenchmarkNewData(b *testing.B) {
	needLibrary(b)
	m, err := LoadXML(reacher, nil)
	must(b, err)
	defer m.Close()
	for b.Loop() {
		d, err := m.NewData()
		must(b, err)
		d.Close()
	}
}
