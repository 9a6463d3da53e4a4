// Package kernels holds the CUDA C sources of the GPU's kernels.
//
// Command compile compiles them to PTX for package gpu, and package emu compiles the
// same files to a library that runs on the host's processor. Files that define kernels
// end in .cu; the headers that they share end in .cuh:
//
//	common.cuh                what every kernel uses: KERNEL, Mat, reductions, Philox, activations
//	args.cuh                  the structures of arguments, from which cuda/args_gen.go is generated
//	async.cuh, mma.cuh        Ampere's asynchronous copies and tensor cores
//	wgmma.cuh                 Hopper's warpgroup instructions
//	epilogue.cuh, gemm*.cu    GEMM in float32, by mma.sync, and by wgmma
//	heads.cuh, flash.cuh      attention: geometry and building blocks
//	rows.cuh                  rows in registers, for norms.cu and pointwise.cu
//
// Each .cu file begins with the formulas, the assignment of work to blocks, and the
// memory traffic.
package kernels

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.cu *.cuh
var sources embed.FS

// Source is a file: its name without folder, and its text.
type Source struct{ Name, Text string }

// For reports whether the file can be compiled for an ISA such as sm_80. The files of
// wgmma kernels, whose names contain _wgmma, require sm_90a.
func (s Source) For(isa string) bool {
	return !strings.Contains(s.Name, "_wgmma") || strings.HasSuffix(isa, "sm_90a")
}

// Sources returns the files that define kernels, sorted by name.
func Sources() []Source { return files(".cu") }

// Headers returns the files that they include, sorted by name.
func Headers() []Source { return files(".cuh") }

// files returns the embedded files whose names end in suffix. fs.ReadDir sorts by name.
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
