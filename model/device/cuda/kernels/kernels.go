// Package kernels holds the CUDA C sources of the GPU's kernels. The program
// compile makes PTX of them, package emu a library that runs on a processor.
// Files of kernels end in .cu, what they share in .cuh.
package kernels

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.cu *.cuh
var sources embed.FS

// Source is one file.
type Source struct{ Name, Text string }

// For says whether the file is for an ISA: wgmma exists on Hopper alone.
func (s Source) For(isa string) bool {
	return !strings.Contains(s.Name, "_wgmma") || strings.HasSuffix(isa, "sm_90a")
}

// Sources are the files of kernels, and Headers what they include, by name.
func Sources() []Source { return files(".cu") }
func Headers() []Source { return files(".cuh") }

func files(suffix string) []Source {
	entries, err := fs.ReadDir(sources, ".")
	if err != nil {
		panic("kernels: " + err.Error()) // embedded: cannot happen
	}
	var list []Source
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		text, err := sources.ReadFile(e.Name())
		if err != nil {
			panic("kernels: " + err.Error())
		}
		list = append(list, Source{e.Name(), string(text)})
	}
	return list
}
