// Package roofline counts what a training step or a plan moves and computes on a GPU,
// kernel by kernel, and the minimum time that the GPU's memory and tensor cores need
// for it (the roofline model). The verb bench compares measured times with it, and
// tests print the table without a GPU.
//
// [Machine] is a cuda.Machine that executes nothing:
//
//	m := roofline.New(roofline.H200)
//	d, err := cuda.New(m, device.BF16)
//	... // run a step on d
//	fmt.Print(m.Table())
//
// Results read from the device are undefined, so the counted code must not depend on
// them. The package knows launches only: no layers and no models.
package roofline

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"scalewm/model/device/cuda"
)

// Card is the peak rates of a GPU: memory bandwidth in bytes per second, and
// floating-point operations per second of bf16 matrix multiplication.
type Card struct{ Bandwidth, FLOPS float64 }

// H200 is the rates that were measured on H200 GPUs.
var H200 = Card{4.3e12, 790e12}

// Seconds returns the minimum time of a launch: memory and tensor cores work at the
// same time, so the slower decides.
func (c Card) Seconds(t cuda.Traffic) float64 {
	return max(float64(t.Read+t.Written)/c.Bandwidth, t.FLOP/c.FLOPS)
}

// Entry is all launches of one kernel and shape, with their total traffic.
type Entry struct {
	Kernel   string // cuda.Kernel.Label
	Launches int
	cuda.Traffic
	Floor   float64 // seconds, summed over the launches
	Unknown bool    // whether package cuda does not describe the kernel, so that it counts as nothing
}

// Machine is a cuda.Machine that counts launches. It is not safe for concurrent use.
type Machine struct {
	card    Card
	entries map[string]*Entry
	next    cuda.Pointer
}

// New returns a machine that computes minimum times for a card.
func New(c Card) *Machine { return &Machine{card: c, entries: map[string]*Entry{}, next: 1 << 20} }

// Reset discards what was counted.
func (m *Machine) Reset() { clear(m.entries) }

// Entries returns the kernels that ran, those with the longest minimum time first.
func (m *Machine) Entries() []Entry {
	var list []Entry
	for _, e := range m.entries {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		if a.Floor != b.Floor {
			return int(b.Floor*1e15) - int(a.Floor*1e15)
		}
		return strings.Compare(a.Kernel, b.Kernel)
	})
	return list
}

// Table returns the entries and their sum as text.
func (m *Machine) Table() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-40s %8s %11s %11s %10s %10s\n", "kernel", "launches", "read MB", "written MB", "GFLOP", "floor us")
	line := func(e Entry) {
		fmt.Fprintf(&s, "%-40s %8d %11.1f %11.1f %10.1f %10.1f\n", e.Kernel, e.Launches, float64(e.Read)/1e6,
			float64(e.Written)/1e6, e.FLOP/1e9, e.Floor*1e6)
	}
	sum := Entry{Kernel: "all"}
	for _, e := range m.Entries() {
		line(e)
		sum.add(e.Launches, e.Traffic, e.Floor)
	}
	line(sum)
	return s.String()
}

func (e *Entry) add(n int, t cuda.Traffic, floor float64) {
	e.Launches += n
	e.Read += t.Read
	e.Written += t.Written
	e.FLOP += t.FLOP
	e.Floor += floor
}

// ISA is Hopper's: the engine then makes the launches that such a GPU gets.
func (m *Machine) ISA() string { return "sm_90a" }

// Alloc returns addresses that are never used.
func (m *Machine) Alloc(bytes int) (cuda.Pointer, error) {
	p := m.next
	m.next += cuda.Pointer(bytes)
	return p, nil
}

// The other methods do nothing. FreeBytes reports 64 GiB.

func (m *Machine) Free(cuda.Pointer, int)                        {}
func (m *Machine) Write(cuda.Pointer, unsafe.Pointer, int) error { return nil }
func (m *Machine) Read(unsafe.Pointer, cuda.Pointer, int) error  { return nil }
func (m *Machine) FreeBytes() (int, error)                       { return 1 << 36, nil }
func (m *Machine) AllocHost(n int) (unsafe.Pointer, error) {
	return unsafe.Pointer(unsafe.SliceData(make([]byte, n))), nil
}
func (m *Machine) FreeHost(unsafe.Pointer, int) error           { return nil }
func (m *Machine) Send(cuda.Pointer, unsafe.Pointer, int) error { return nil }
func (m *Machine) Await() error                                 { return nil }
func (m *Machine) Sync() error                                  { return nil }
func (m *Machine) Close() error                                 { return nil }

// Run counts the launches.
func (m *Machine) Run(launches []cuda.Launch, args []byte) error {
	for _, l := range launches {
		own := args[l.At : l.At+l.Size]
		label := l.Kernel.Label(own)
		e := m.entries[label]
		if e == nil {
			e = &Entry{Kernel: label}
			m.entries[label] = e
		}
		t, known := l.Kernel.Traffic(own)
		e.Unknown = !known
		e.add(1, t, m.card.Seconds(t))
	}
	return nil
}

// Graph returns a graph that is counted at each start.
func (m *Machine) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	return graph{m, slices.Clone(launches), slices.Clone(args)}, nil
}

// graph keeps its first arguments: updates do not change shapes.
type graph struct {
	m        *Machine
	launches []cuda.Launch
	args     []byte
}

func (g graph) Update(int, []byte) error { return nil }
func (g graph) Start() error             { return g.m.Run(g.launches, g.args) }
func (g graph) Close() error             { return nil }
