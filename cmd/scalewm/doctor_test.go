package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMachine has the given files below its root and nothing else.
func fakeMachine(t *testing.T, files map[string]string) machine {
	t.Helper()
	m := machine{
		root:     filepath.Join(t.TempDir(), "[x]*"), // a folder may be called so
		checkout: "/src",
		exeDir:   "/src/bin",
		getenv:   func(string) string { return "" },
	}
	for name, text := range files {
		path := filepath.Join(m.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestDoctorOnABareMachine(t *testing.T) {
	m := fakeMachine(t, nil)
	for _, look := range []func(machine) finding{mujocoLibrary, cubeFiles, glLibraries, gpu, peers, browser, memory} {
		f := look(m)
		if f.OK || f.Fix == "" || f.Value == "" {
			t.Errorf("%s on a bare machine: %+v, want missing with a fix", f.Name, f)
		}
	}
}

// Lines of /proc/cpuinfo, /proc/meminfo, /proc/driver/nvidia/version and
// /etc/os-release as Debian 12 shows them.
func TestDoctorReadsTheMachine(t *testing.T) {
	m := fakeMachine(t, map[string]string{
		"/etc/os-release":             "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n",
		"/proc/cpuinfo":               "processor\t: 0\nmodel name\t: Imaginary 9000\n",
		"/proc/meminfo":               "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:   8000000 kB\n",
		"/dev/nvidia0":                "",
		"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n",
		"/usr/lib64/libEGL.so.1":      "",
		"/src/third_party/fetched/mujoco/libmujoco.so.3.11.0":                                              "",
		"/src/third_party/fetched/ogbench/descriptions/floor_wall.xml":                                     "",
		"/src/third_party/fetched/peers/complete":                                                          "",
		"/src/third_party/fetched/peers/bin/python":                                                        "",
		"/src/third_party/peers.lock":                                                                      "# a comment\ndm_control==1.0.44 --hash=sha256:00\nBox2D==2.3.10 --hash=sha256:00\n",
		"/src/third_party/fetched/peers/lib/python3.11/site-packages/dm_control-1.0.44.dist-info/METADATA": "",
		"/src/third_party/fetched/peers/lib/python3.11/site-packages/box2d-2.3.10.dist-info/METADATA":      "",
		"/usr/bin/chromium": "",
	})
	for _, c := range []struct {
		look func(machine) finding
		want string
	}{
		{system, "Debian GNU/Linux 12 (bookworm) linux/"},
		{processor, "Imaginary 9000, "},
		{kernels, "plain"},
		{memory, "16.4 GB, 8.2 GB of it free"},
		{gpu, "driver 580.65.06"},
		{glLibraries, "/usr/lib64/libEGL.so.1"},
		{mujocoLibrary, "/src/third_party/fetched/mujoco/libmujoco.so.3.11.0"},
		{cubeFiles, "/src/third_party/fetched/ogbench/descriptions/floor_wall.xml"},
		{browser, "/usr/bin/chromium"},
		{peers, "/src/third_party/fetched/peers/bin/python"},
	} {
		if f := c.look(m); !f.OK || f.Fix != "" || !strings.Contains(f.Value, c.want) {
			t.Errorf("%s: %+v, want ok with %q", f.Name, f, c.want)
		}
	}
}

// Peers with other versions than in the lock file are reported.
func TestDoctorComparesPeersWithTheLock(t *testing.T) {
	m := fakeMachine(t, map[string]string{
		"/src/third_party/fetched/peers/complete":   "",
		"/src/third_party/fetched/peers/bin/python": "",
		"/src/third_party/peers.lock":               "mujoco==3.11.0 --hash=sha256:00\ntorch==2.15.0 --hash=sha256:00\nnumpy==2.4.6 --hash=sha256:00\n",
		"/src/third_party/fetched/peers/lib/python3.11/site-packages/mujoco-4.0.0.dist-info/METADATA": "",
		"/src/third_party/fetched/peers/lib/python3.11/site-packages/numpy-2.4.6.dist-info/METADATA":  "",
	})
	if f := peers(m); f.OK || !strings.Contains(f.Value, "peers.lock names (mujoco==3.11.0 and 1 others)") || !strings.HasPrefix(f.Fix, "make setup-peers") {
		t.Errorf("%+v", f)
	}
}

func TestDoctorSearchesMuJoCo(t *testing.T) {
	m := fakeMachine(t, map[string]string{
		"/opt/mj/libmujoco.so.3.11.0":  "",
		"/src/bin/libmujoco.so.3.11.0": "",
		"/opt/mj/floor_wall.xml":       "",
	})
	if f := mujocoLibrary(m); f.Value != "/src/bin/libmujoco.so.3.11.0" {
		t.Errorf("beside the executable: %+v", f)
	}
	for env, ok := range map[string]bool{"/opt/mj": true, "/opt/mj/libmujoco.so.3.11.0": true, "/opt/nowhere": false} {
		m.getenv = func(name string) string {
			if name == "SCALEWM_MUJOCO" || name == "SCALEWM_OGBENCH" {
				return env
			}
			return ""
		}
		if f := mujocoLibrary(m); f.OK != ok || !ok && !strings.Contains(f.Fix, env) {
			t.Errorf("SCALEWM_MUJOCO=%s: %+v, want ok %v", env, f, ok)
		}
		if f := cubeFiles(m); f.OK != (env == "/opt/mj") || !f.OK && !strings.Contains(f.Fix, env) {
			t.Errorf("SCALEWM_OGBENCH=%s: %+v", env, f)
		}
	}
}

func TestDoctorChecksForcedKernels(t *testing.T) {
	m := fakeMachine(t, nil)
	for forced, ok := range map[string]bool{"plain": true, "abacus": false} {
		m.getenv = func(string) string { return forced }
		if f := kernels(m); f.OK != ok || !strings.Contains(f.Value, "forces "+forced) {
			t.Errorf("SCALEWM_CPU=%s: %+v, want ok %v", forced, f, ok)
		}
	}
}

func TestDoctorJSON(t *testing.T) {
	out, errs, code := session("doctor", "--json")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	var got struct {
		Version string
		Checks  []finding
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v in %q", err, out)
	}
	if got.Version == "" || len(got.Checks) < 10 {
		t.Errorf("version %q, %d checks", got.Version, len(got.Checks))
	}
	for _, f := range got.Checks {
		if f.Name == "" || f.Value == "" || f.OK == (f.Fix != "") {
			t.Errorf("%+v: a finding needs a value, and a fix exactly where it is not ok", f)
		}
	}
}

func TestDoctorText(t *testing.T) {
	var out strings.Builder
	printFindings(&out, []finding{{Name: "a", OK: true, Value: "here"}, {Name: "b", Value: "gone", Fix: "fetch it"}})
	want := "ok       a            here\nmissing  b            gone\n                      fix: fetch it\n"
	if out.String() != want {
		t.Errorf("printed\n%q, want\n%q", out.String(), want)
	}
}
