package mujoco

import (
	"syscall"
	"testing"
	"time"
)

// reacher is a model of the size of dm_control's: two hinges, two motors, no contact.
const reacher = `<mujoco><option timestep="0.02"><flag contact="disable"/></option><worldbody>
<body><joint name="a" damping="0.01" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 .12 0 0" size=".01"/>
<body pos=".12 0 0"><joint name="b" damping="0.01" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>
<body pos=".1 0 0"><geom size=".01"/></body></body></body></worldbody>
<actuator><motor joint="a" gear=".05"/><motor joint="b" gear=".05"/></actuator></mujoco>`

// BenchmarkStep steps once per call and reports, from the best of some rounds, the
// rate and its share of that of a loop in C.
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

// cpuTime is what this process has used: on a busy machine the clock says little.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNewData measures what an episode's data cost, made and closed.
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
