package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
	"scalewm/envs/cube"
	"scalewm/model/device/cpu"
	"scalewm/mujoco"
	thirdparty "scalewm/third_party"
)

// program reports the version of this binary.
func program(machine) finding {
	return finding{Name: "scalewm", OK: true, Value: fmt.Sprintf("%s, built with %s", fullVersion(), runtime.Version())}
}

// system reports the operating system. Only Linux is tested.
func system(m machine) finding {
	name := field(m.read("/etc/os-release"), "PRETTY_NAME", "=")
	f := finding{Name: "system", OK: runtime.GOOS == "linux", Value: strings.TrimSpace(strings.Trim(name, `"`) + " " + runtime.GOOS + "/" + runtime.GOARCH)}
	if !f.OK {
		f.Fix = "use Linux; other systems are not tested"
	}
	return f
}

// processor reports the CPU and those of its SIMD extensions that the kernels use.
func processor(m machine) finding {
	return finding{Name: "processor", OK: true, Value: fmt.Sprintf("%s, %d cores, %s",
		orElse(field(m.read("/proc/cpuinfo"), "model name", ":"), runtime.GOARCH), runtime.NumCPU(),
		orElse(strings.Join(cpu.Features(), " "), "no SIMD that we use"))}
}

// kernels reports the instruction sets that training and planning can use here, the
// default for bf16 first. It runs a multiplication on each: an operating system or
// hypervisor may announce instructions that do not work.
func kernels(m machine) finding {
	have := cpu.Paths()
	f := finding{Name: "kernels", OK: true, Value: "can run as " + strings.Join(have, ", ")}
	for _, path := range have {
		if err := cpu.Check(path); err != nil {
			f.OK, f.Fix = false, "nothing to do: it is not used by default; a newer kernel or hypervisor may fix it"
			f.Value += "; " + err.Error()
		}
	}
	// The variable that overrides the choice must name an instruction set that exists here.
	if forced := m.getenv(cpu.ISAVariable); forced != "" {
		f.Value += "; " + cpu.ISAVariable + " forces " + forced
		if f.OK = slices.Contains(have, forced); !f.OK {
			f.Fix = "unset " + cpu.ISAVariable + ", or set it to one of those"
		}
	}
	return f
}

// memory reports total and available memory.
func memory(m machine) finding {
	info := m.read("/proc/meminfo")
	total, free := kilobytes(field(info, "MemTotal", ":")), kilobytes(field(info, "MemAvailable", ":"))
	f := finding{Name: "memory", OK: free >= 2<<30, Value: fmt.Sprintf("%s, %s of it free", gigabytes(total), gigabytes(free))}
	if !f.OK {
		f.Fix = "close other programs: the demo needs about 2 GB"
	}
	return f
}

// disk reports the free space of the working folder, where outputs go by default.
func disk(m machine) finding {
	var st syscall.Statfs_t
	if err := syscall.Statfs(workingDir(), &st); err != nil {
		return finding{Name: "disk", Value: err.Error(), Fix: "run from a folder that can be written"}
	}
	free := st.Bavail * uint64(st.Bsize) // what an unprivileged user can use
	f := finding{Name: "disk", OK: free >= 5e9, Value: gigabytes(free) + " free in this folder"}
	if !f.OK {
		f.Fix = "the demo and its build need about 5 GB; choose an --out on a larger disk"
	}
	return f
}

// dataLibraries reports the versions of the linked HDF5 libraries. That they exist is
// certain, since the program runs.
func dataLibraries(machine) finding {
	h5, deflate, err := hdf5.LibraryVersions()
	if err != nil {
		return finding{Name: "HDF5", Value: err.Error(), Fix: "apt-get install -y --reinstall libhdf5-dev, then make build"}
	}
	return finding{Name: "HDF5", OK: true, Value: fmt.Sprintf("libhdf5 %s, libdeflate %s", h5, deflate)}
}

// mujocoLibrary looks for MuJoCo's library where the program would load it, without
// loading it.
func mujocoLibrary(m machine) finding {
	return m.fetched("MuJoCo", mujoco.Variable, thirdparty.Candidates(m.getenv(mujoco.Variable), m.exeDir, m.checkout, "mujoco", "libmujoco.so."+mujoco.Version),
		"no library of version "+mujoco.Version+": tasks with physics cannot run, the planar ones can")
}

// cubeFiles looks for the OGBench file that the scene of cube includes first.
func cubeFiles(m machine) finding {
	places := thirdparty.Candidates(m.getenv(cube.Variable), m.exeDir, m.checkout, "ogbench", cube.Folder)
	for i, p := range places {
		places[i] = filepath.Join(p, cube.MainFile)
	}
	return m.fetched("OGBench", cube.Variable, places, "no model files: cube cannot run, the other tasks can")
}

// fetched reports the first of the places that is a file. places are the candidates
// in the order in which the program tries them. If the environment variable is set,
// it is the only candidate, so that a wrong value is the thing to fix.
func (m machine) fetched(name, variable string, places []string, lacking string) finding {
	for _, p := range places {
		if m.isFile(p) {
			return finding{Name: name, OK: true, Value: p}
		}
	}
	f := finding{Name: name, Value: lacking, Fix: "make setup"}
	if env := m.getenv(variable); env != "" {
		f.Fix = variable + "=" + env + " does not exist: correct or unset it"
	}
	return f
}

// glLibraries looks for the OpenGL libraries that can render off-screen, without
// loading them.
func glLibraries(m machine) finding {
	// Where the dynamic loader of common distributions looks.
	dirs := filepath.SplitList(m.getenv("LD_LIBRARY_PATH"))
	dirs = append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
	var have []string
	for _, lib := range []string{"libEGL.so.1", "libOSMesa.so.8"} {
		for _, d := range dirs {
			if m.isFile(filepath.Join(d, lib)) {
				have = append(have, filepath.Join(d, lib))
				break
			}
		}
	}
	if len(have) == 0 {
		return finding{Name: "OpenGL", Value: "neither EGL nor OSMesa: tasks with physics cannot be drawn, the planar ones can",
			Fix: "apt-get install -y libegl1 libgl1-mesa-dri"}
	}
	return finding{Name: "OpenGL", OK: true, Value: strings.Join(have, ", ")}
}

// gpu reports the GPU. A binary built with CUDA asks the driver, except in tests; any
// other looks at the driver's files.
func gpu(m machine) finding {
	name, err := usedGPU()
	// asked: the driver's answer applies to this machine.
	switch asked := gpuBuild && m.root == ""; {
	case asked && err == nil:
		return finding{Name: "GPU", OK: true, Value: name}
	case !m.exists("/dev/nvidia0"):
		return finding{Name: "GPU", Value: "no NVIDIA device: everything runs on the processor",
			Fix: "none needed; with one, make cuda builds the binary that uses it"}
	case asked:
		return finding{Name: "GPU", Value: err.Error(), Fix: "see the hint; until then everything runs on the processor"}
	}
	// There is a GPU, but this binary does not use it or the machine is a test's.
	f := finding{Name: "GPU", OK: true, Value: "NVIDIA, " + driverVersion(m)}
	if !gpuBuild {
		f.Value += " (" + err.Error() + ")"
	}
	return f
}

// driverVersion returns the version of NVIDIA's kernel driver.
func driverVersion(m machine) string {
	// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...": the version is
	// the word of digits and dots.
	for _, w := range strings.Fields(field(m.read("/proc/driver/nvidia/version"), "NVRM version", ":")) {
		if strings.Count(w, ".") > 0 && strings.Trim(w, "0123456789.") == "" {
			return "driver " + w
		}
	}
	return "unknown driver"
}

// peers reports the Python environment of the reference programs that some tests
// compare with.
func peers(m machine) finding {
	python := m.getenv("SCALEWM_PEERS")
	if python == "" && m.checkout != "" && m.isFile(filepath.Join(m.checkout, "third_party/fetched/peers/complete")) {
		python = filepath.Join(m.checkout, "third_party/fetched/peers/bin/python")
	}
	// make setup-peers writes the file "complete" last: without it the set-up was interrupted.
	if python == "" || !m.isFile(python) {
		return finding{Name: "peers", Value: "no Python peers: tests that compare with them are skipped", Fix: "make setup-peers (4 GB; the program itself needs no Python)"}
	}
	if other := m.lockMismatch(python); other != "" {
		return finding{Name: "peers", Value: python + ": " + other, Fix: "make setup-peers (4 GB; the program itself needs no Python)"}
	}
	return finding{Name: "peers", OK: true, Value: python}
}

// lockMismatch compares the packages in a virtual environment with the checkout's
// third_party/peers.lock, by the names of their .dist-info folders. It returns a
// description of a difference, or "".
func (m machine) lockMismatch(python string) string {
	installed, _ := fs.Glob(os.DirFS(m.root+filepath.Join(filepath.Dir(python), "../lib")), "python3*/site-packages/*.dist-info")
	have := map[string]bool{}
	for _, dir := range installed {
		have[distribution(strings.TrimSuffix(filepath.Base(dir), ".dist-info"))] = true
	}
	missing := 0
	first := "" // the first missing package
	// Lines of the lock file are "NAME==VERSION --hash=...".
	for line := range strings.Lines(m.read(filepath.Join(m.checkout, "third_party/peers.lock"))) {
		pinned, _, ok := strings.Cut(line, " --hash")
		if ok && !have[distribution(strings.Replace(pinned, "==", "-", 1))] {
			first = orElse(first, pinned)
			missing++
		}
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("not what third_party/peers.lock names (%s and %d others)", first, missing-1)
}

// distribution normalises NAME-VERSION of a Python package: lower case, with
// underscores.
func distribution(s string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(s))
}

// browser looks for the Chromium that tests of the HTML report use.
func browser(m machine) finding {
	for _, p := range []string{m.getenv("SCALEWM_BROWSER"), "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"} {
		if p != "" && m.isFile(p) {
			return finding{Name: "browser", OK: true, Value: p}
		}
	}
	return finding{Name: "browser", Value: "no Chromium: tests that look at the HTML report are skipped", Fix: "make setup-browser"}
}

// exists reports whether a path exists on the machine.
func (m machine) exists(path string) bool { _, err := os.Stat(m.root + path); return err == nil }

// isFile reports whether a path is a regular file on the machine.
func (m machine) isFile(path string) bool {
	st, err := os.Stat(m.root + path)
	return err == nil && st.Mode().IsRegular()
}

// read returns the contents of a small file, "" if it cannot be read.
func (m machine) read(path string) string {
	b, err := safefile.Read(m.root+path, safefile.MaxRecord)
	if err != nil {
		return ""
	}
	return string(b)
}

// field returns the value of the first line "key<sep>value" of a text such as
// /proc/cpuinfo, "" if there is none.
func field(text, key, sep string) string {
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, sep)
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// kilobytes parses "123 kB", as in /proc/meminfo, and returns bytes; 0 on an error.
func kilobytes(s string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(s, " kB"), 10, 64)
	return n << 10
}

// gigabytes formats bytes.
func gigabytes(n uint64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// orElse returns s, or other if s is empty.
func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// workingDir returns the working folder.
func workingDir() string {
	d, err := os.Getwd()
	if err != nil {
		return "."
	}
	return d
}

// dirOf returns the folder of a file after following symbolic links.
func dirOf(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	return filepath.Dir(file)
}

// checkoutAbove returns the closest folder at or above dir that contains our
// manifest, "" if there is none.
func checkoutAbove(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "third_party/manifest.toml")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}
