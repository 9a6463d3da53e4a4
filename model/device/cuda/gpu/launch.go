//go:build gpu

package gpu

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"scalewm/model/device/cuda"
)

// nodes are launches as driver.c takes them.
func (m *machine) nodes(launches []cuda.Launch) []C.Node {
	list := make([]C.Node, len(launches))
	for i, l := range launches {
		list[i] = C.Node{function: m.functions[l.Kernel], grid: C.uint(l.Grid), threads: C.uint(l.Threads),
			shared: C.uint(l.Shared), at: C.uint(l.At)}
	}
	return list
}

// pointers are those of lists that are not empty.
func pointers(list []C.Node, args []byte) (*C.Node, *C.char) {
	return unsafe.SliceData(list), (*C.char)(unsafe.Pointer(unsafe.SliceData(args)))
}

func (m *machine) Run(launches []cuda.Launch, args []byte) error {
	release, err := m.enter()
	if err != nil {
		return err
	}
	defer release()
	list, data := pointers(m.nodes(launches), args)
	var failed C.int
	code := C.gpu_run(m.handle(), &m.overlap, C.int(len(launches)), list, data, &failed)
	return m.result(code, fmt.Sprintf("launching kernel %s", launches[failed].Kernel))
}

// graph is a chain of launches that the driver keeps.
type graph struct {
	machine *machine
	nodes   []C.Node
	chain   *C.Chain
}

func (m *machine) Graph(launches []cuda.Launch, args []byte) (cuda.Graph, error) {
	release, err := m.enter()
	if err != nil {
		return nil, err
	}
	defer release()
	g := &graph{machine: m, nodes: m.nodes(launches)}
	list, data := pointers(g.nodes, args)
	if err := m.result(C.gpu_chain(&g.chain, &m.overlap, C.int(len(launches)), list, data), "making a graph"); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *graph) Update(i int, args []byte) error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	node := g.nodes[i : i+1]
	list, data := pointers(node, args)
	return g.machine.result(C.gpu_chain_update(g.chain, C.int(i), list, data), "updating a graph")
}

func (g *graph) Start() error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	return g.machine.result(C.gpu_chain_start(g.chain, g.machine.handle()), "starting a graph")
}

func (g *graph) Close() error {
	release, err := g.machine.enter()
	if err != nil {
		return err
	}
	defer release()
	return g.machine.result(C.gpu_chain_free(g.chain), "freeing a graph")
}
