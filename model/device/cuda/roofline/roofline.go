// Package roofline is a GPU that computes nothing and keeps count: what a training
// step or a plan asks of a card, kernel by kernel, and the least time that the
// card's memory and tensor cores need for it. What is measured on a day with a
// GPU is held against it.
//
// It knows launches only: no layers, no models.
package roofline

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"scalewm/model/device/cuda"
)

// Card is how fast a GPU is at most.
type Card struct{ Bandwidth, FLOPS float64 }

// H200 is what such cards were measured to reach: bytes and bf16 operations a second.
var H200 = Card{4.3e12, 790e12}

// Seconds is the least that a launch takes.
func (c Card) Seconds(t cuda.Traffic) float64 {
	return max(float64(t.Read+t.Written)/c.Bandwidth, t.FLOP/c.FLOPS)
}

// Entry is all launches of a kernel and shape.
type Entry struct {
	Kernel   string // cuda.Kernel.Label
	Launches int
	cuda.Traffic
	Floor   float64 // seconds
	Unknown bool    // a kernel that package cuda does not describe
}

// Machine is a cuda.Machine that counts.
type Machine struct {
	card    Card
	entries map[string]*Entry
	next    cuda.Pointer
}

// New counts for a card.
func New(c Card) *Machine { return &Machine{card: c, entries: map[string]*Entry{}, next: 1 << 20} }

// Reset forgets what was counted.
func (m *Machine) Reset() { clear(m.entries) }

// Entries are the kernels that ran, those that need longest first.
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

// Table is the entries as text, with their sum.
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

// ISA is Hopper's: the launches are those that such a card gets.
func (m *Machine) ISA() string { return "sm_90a" }

// Alloc gives addresses that nobody may look behind.
func (m *Machine) Alloc(bytes int) (cuda.Pointer, error) {
	p := m.next
	m.next += cuda.Pointer(bytes)
	return p, nil
}

func (m *Machine) Free(cuda.Pointer, int)                        {}
func (m *Machine) Write(cuda.Pointer, unsafe.Pointer, int) error { return nil }
func (m *Machine) Read(unsafe.Pointer, cuda.Pointer, int) error  { return nil }
func (m *Machine) Room() (int, error)                            { return 1 << 36, nil }
func (m *Machine) AllocHost(n int) (unsafe.Pointer, error) {
	return unsafe.Pointer(unsafe.SliceData(make([]byte, n))), nil
}
func (m *Machine) FreeHost(unsafe.Pointer, int) error           { return nil }
func (m *Machine) Send(cuda.Pointer, unsafe.Pointer, int) error { return nil }
func (m *Machine) Await() error                                 { return nil }
func (m *Machine) Sync() error                                  { return nil }
func (m *Machine) Close() error                                 { return nil }

// Run counts.
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

// Graph counts at each start.
func (m *Machine) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	return graph{m, slices.Clone(launches), slices.Clone(args)}, nil
}

// graph keeps the arguments it was made with: updates change no shapes.
type graph struct {
	m        *Machine
	launches []cuda.Launch
	args     []byte
}

func (g graph) Update(int, []byte) error { return nil }
func (g graph) Start() error             { return g.m.Run(g.launches, g.args) }
func (g graph) Close() error             { return nil }
