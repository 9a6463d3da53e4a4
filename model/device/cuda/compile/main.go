//go:build gpu

// Command compile compiles the GPU's kernels to PTX by NVRTC. It needs no GPU.
//
// For each file of kernels and each target it writes NAME.ARCH.ptx to the folder given
// by -out; `make cuda` passes the folder that package gpu embeds. The driver compiles
// PTX to machine code when a GPU is first used, so the files do not depend on the GPU
// beyond their target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gorgonia.org/cu/nvrtc"

	"scalewm/dataset/parallel"
	"scalewm/model/device/cuda/kernels"
)

// targets are the compute capabilities that PTX is generated for: 80 for everything
// from Ampere on, and 90a for Hopper with the features that only it has (wgmma), which
// no other GPU runs.
var targets = []string{"80", "90a"}

func main() {
	out := flag.String("out", "", "folder for the PTX files")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

// run compiles all files for all targets that they support.
func run(out string) error {
	if out == "" {
		return fmt.Errorf("no folder for the PTX files (hint: -out model/device/cuda/gpu/ptx)")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	type job struct {
		source kernels.Source
		target string
	}
	var jobs []job
	for _, source := range kernels.Sources() {
		for _, target := range targets {
			if source.For("sm_" + target) {
				jobs = append(jobs, job{source, target})
			}
		}
	}
	return parallel.For(context.Background(), 0, len(jobs), func(_, i int) error {
		j := jobs[i]
		ptx, err := ptx(j.source, j.target)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(j.source.Name, ".cu") + ".sm_" + j.target + ".ptx"
		return os.WriteFile(filepath.Join(out, name), []byte(ptx), 0o644)
	})
}

// ptx compiles one file for one target and returns the text.
func ptx(source kernels.Source, target string) (string, error) {
	p, err := compiled(source, "compute_"+target)
	if err != nil {
		return "", err
	}
	defer p.Destroy()
	text, err := p.GetPTX()
	if err != nil {
		return "", fmt.Errorf("%s for sm_%s: fetching the PTX: %w", source.Name, target, err)
	}
	return strings.TrimRight(text, "\x00"), nil
}

// compiled compiles a file for an architecture: a virtual one (compute_90a), which
// yields PTX, or a real one (sm_90a), for which NVRTC also runs the assembler and
// reports its warnings. Any output of the compiler is an error. The caller destroys the
// program.
func compiled(source kernels.Source, architecture string) (nvrtc.Program, error) {
	var headers []nvrtc.Include
	for _, h := range kernels.Headers() {
		headers = append(headers, nvrtc.Include{Source: h.Text, Name: h.Name})
	}
	p, err := nvrtc.CreateProgram(source.Text, source.Name, headers...)
	if err != nil {
		return p, fmt.Errorf("%s: starting NVRTC: %w", source.Name, err)
	}
	err = p.Compile("--gpu-architecture="+architecture, "--std=c++17")
	log, logErr := p.GetLog()
	if log = strings.Trim(log, "\x00\n "); err != nil || logErr != nil || log != "" { // a warning is an error
		defer p.Destroy()
		return p, fmt.Errorf("%s for %s: %w\n%s", source.Name, architecture, errors.Join(err, logErr), log)
	}
	return p, nil
}
