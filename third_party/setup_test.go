package thirdparty

// The tests run the set-up script in a temporary checkout with fake system commands, so that
// no package is installed and nothing is downloaded.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

type manifest struct {
	Apt []struct {
		Set, Name, For string
		MB             int
	}
	Wheel []struct {
		Set, Name, Version, File, Python, Platform, SHA256, Licence, Keep, For string
		Bytes, MB                                                              int
	}
	Peer []struct{ Name, Version string }
}

func TestManifestIsComplete(t *testing.T) {
	var m manifest
	meta, err := toml.DecodeFile("manifest.toml", &m)
	if err != nil {
		t.Fatal(err)
	}
	if left := meta.Undecoded(); len(left) > 0 {
		t.Errorf("keys that nobody reads: %v", left)
	}
	if len(m.Apt) == 0 || len(m.Wheel) == 0 || len(m.Peer) == 0 {
		t.Fatalf("an empty part: %+v", m)
	}
	for _, a := range m.Apt {
		if a.Name == "" || a.For == "" || a.MB == 0 || !strings.Contains(" base peers python browser slurm nfs cuda ", " "+a.Set+" ") {
			t.Errorf("incomplete package %+v", a)
		}
	}
	sha := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, w := range m.Wheel {
		if !sha.MatchString(w.SHA256) || !strings.HasPrefix(w.File, w.Name+"-"+w.Version+"-") || w.Bytes == 0 ||
			(w.Set != "base" && w.Set != "cuda") || w.Licence == "" || w.Keep == "" || w.For == "" || w.MB != (w.Bytes+500_000)/1_000_000 {
			t.Errorf("incomplete wheel %+v", w)
		}
	}
	for _, p := range m.Peer {
		if p.Name == "" || p.Version == "" {
			t.Errorf("peer without a pinned version: %+v", p)
		}
	}
}

// machine is a fake computer: a checkout with the script, and commands that answer as
// the test requires and log their calls.
type machine struct {
	root, log string
	env       []string
}

// newMachine returns a machine on which the user has an id, and the packages whose
// names match installed (a shell pattern) are installed. pip always fails.
func newMachine(t *testing.T, uid, installed string) machine {
	t.Helper()
	root := t.TempDir()
	m := machine{root: root, log: filepath.Join(root, "log")}
	for _, f := range []string{"setup.sh", "manifest.toml", "peers.lock", "lerobot.lock"} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, "third_party", f), string(b))
	}
	note := `echo "${0##*/} $*" >>` + m.log + "\n"
	commands := map[string]string{
		"dpkg-query": `case "${@: -1}" in ` + installed + `) echo install ok installed ;; *) exit 1 ;; esac`,
		"id":         "echo " + uid,
		"apt-get":    note,
		"go":         "exit 0",
		"python3":    note + "exit 1",
		"python3.11": note + "exit 1",
	}
	for name, body := range commands {
		writeFile(t, filepath.Join(root, "bin", name), "#!/bin/bash\n"+body+"\n")
	}
	m.env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	return m
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// setup runs the script, and returns its output, its exit status and the logged calls.
func (m machine) setup(t *testing.T, part string) (out string, code int, calls string) {
	t.Helper()
	cmd := exec.Command("bash", filepath.Join(m.root, "third_party", "setup.sh"), part)
	cmd.Env = m.env
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	log, _ := os.ReadFile(m.log)
	return string(b), cmd.ProcessState.ExitCode(), string(log)
}

func TestWithoutRootOneLine(t *testing.T) {
	out, code, calls := newMachine(t, "1000", "gcc|make|libc6-dev|pkg-config").setup(t, "base")
	want := "set-up: packages are missing; run: sudo apt-get install -y --no-install-recommends libhdf5-dev libdeflate-dev\n"
	if out != want || code != 1 || calls != "" {
		t.Errorf("printed %q, exit %d, ran %q; want %q, exit 1 and nothing run", out, code, calls, want)
	}
}

func TestRootInstallsWhatIsMissing(t *testing.T) {
	out, code, calls := newMachine(t, "0", "gcc|make|libc6-dev|pkg-config|libhdf5-dev").setup(t, "base")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	first, _, _ := strings.Cut(calls, "\npython3")
	want := "apt-get -qq update\napt-get -qq install -y --no-install-recommends libdeflate-dev"
	if first != want {
		t.Errorf("ran %q, want %q", first, want)
	}
	for _, word := range []string{"set-up fetches:", "libdeflate-dev", "mujoco 3.11.0", "19 MB", "third_party/fetched/mujoco", "ogbench 1.2.1", "9 MB"} {
		if !strings.Contains(out, word) {
			t.Errorf("the plan does not name %q:\n%s", word, out)
		}
	}
	if strings.Contains(out, "libhdf5-dev") {
		t.Errorf("the plan names a package that is there:\n%s", out)
	}
}

// Planar tasks work without libmujoco. A machine that cannot download it gets a
// warning, set-up continues, and no partial download remains.
func TestWheelIsOptional(t *testing.T) {
	m := newMachine(t, "1000", "*")
	out, code, _ := m.setup(t, "base")
	for _, wheel := range []string{"mujoco 3.11.0", "ogbench 1.2.1"} {
		if code != 0 || !strings.Contains(out, "warning: "+wheel+" could not be fetched") {
			t.Errorf("exit %d, printed %q", code, out)
		}
	}
	left, err := os.ReadDir(filepath.Join(m.root, "third_party", "fetched"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// putWheels installs the pinned wheels on the machine, and returns the SHA-256 of
// MuJoCo's.
func (m machine) putWheels(t *testing.T) (mujoco string) {
	t.Helper()
	var pinned manifest
	if _, err := toml.DecodeFile("manifest.toml", &pinned); err != nil {
		t.Fatal(err)
	}
	for _, w := range pinned.Wheel {
		writeFile(t, filepath.Join(m.root, "third_party/fetched", w.Name, "wheel.sha256"), w.SHA256+"\n")
		if w.Name == "mujoco" {
			mujoco = w.SHA256
		}
	}
	return mujoco
}

// Go's build cache ignores headers outside of a package. A package that was built
// without them must change when they are installed.
func TestHeadersAreStamped(t *testing.T) {
	m := newMachine(t, "1000", "*")
	stamp := filepath.Join(m.root, "mujoco/internal/mjc/stamp.h")
	writeFile(t, filepath.Join(filepath.Dir(stamp), "mjc.go"), "package mjc\n")
	if _, code, _ := m.setup(t, "base"); code != 0 {
		t.Fatalf("exit %d", code)
	}
	if _, err := os.Stat(stamp); err == nil {
		t.Error("a stamp without headers")
	}
	sha := m.putWheels(t)
	m.setup(t, "base")
	first, err := os.ReadFile(stamp)
	if err != nil || !strings.Contains(string(first), sha) {
		t.Errorf("stamp %q (%v), want %s in it", first, err, sha)
	}
	writeFile(t, stamp, "// headers of another wheel\n")
	m.setup(t, "base")
	if again, _ := os.ReadFile(stamp); string(again) != string(first) {
		t.Errorf("an old stamp stays: %q", again)
	}
}

func TestNothingToDoIsSilent(t *testing.T) {
	m := newMachine(t, "1000", "*")
	m.putWheels(t)
	if out, code, calls := m.setup(t, "base"); out != "" || code != 0 || calls != "" {
		t.Errorf("printed %q, exit %d, ran %q; want silence", out, code, calls)
	}
}

// The GPU build needs its wheels. With them, set-up builds the libraries that it links
// with.
func TestCuda(t *testing.T) {
	m := newMachine(t, "1000", "*")
	if out, code, _ := m.setup(t, "cuda"); code != 1 || !strings.Contains(out, "the wheels of the GPU build are missing") {
		t.Errorf("without wheels: exit %d, printed %q", code, out)
	}
	m.putWheels(t)
	writeFile(t, filepath.Join(m.root, "third_party/libcuda.sh"), "#!/bin/bash\necho \"made ${1##*/} in ${2##*/}\" >>"+m.log+"\n")
	if out, code, calls := m.setup(t, "cuda"); code != 0 || out != "" || !strings.Contains(calls, "made include in cuda") {
		t.Errorf("with wheels: exit %d, printed %q, ran %q", code, out, calls)
	}
	if to, err := os.Readlink(filepath.Join(m.root, "third_party/fetched/cuda/libnvrtc.so")); err != nil || !strings.HasSuffix(to, "libnvrtc.so.12") {
		t.Errorf("libnvrtc.so leads to %q (%v)", to, err)
	}
}

// A program linked with libcuda.a starts without a driver: functions return that there
// is no device, and cuInit, whose failure would end the process, succeeds. (A function
// cuSomething does not exist in a real driver either.)
func TestLibcudaWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "cuda.h"), "typedef int CUresult;\nCUresult cuInit(unsigned);\nCUresult cuSomething (double x, int y);\n")
	writeFile(t, filepath.Join(dir, "main.c"), `#include "cuda.h"
		int libcuda_state(void);
		int main(void) { return cuInit(0) != 0 || cuSomething(1, 2) != 100 || libcuda_state() == 1; }`)
	for _, step := range [][]string{
		{"bash", "libcuda.sh", dir, filepath.Join(dir, "out")},
		{"gcc", "-o", filepath.Join(dir, "main"), filepath.Join(dir, "main.c"), filepath.Join(dir, "out", "libcuda.a")},
		{filepath.Join(dir, "main")},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
}

func TestUnknownPart(t *testing.T) {
	if out, code, _ := newMachine(t, "0", "*").setup(t, "everything"); code != 1 || !strings.Contains(out, `unknown part "everything"`) {
		t.Errorf("exit %d, printed %q", code, out)
	}
}

// The lock file is for one version of Python. With another one, set-up fails before it
// downloads anything.
func TestPeersWantTheirPython(t *testing.T) {
	m := newMachine(t, "0", "*")
	if out, code, _ := m.setup(t, "peers"); code != 1 || !strings.Contains(out, "peers.lock is for Python 3.11 on Linux x86-64") {
		t.Errorf("exit %d, printed %q", code, out)
	}
	for name, folder := range map[string]string{"peers.lock": "peers", "lerobot.lock": "peers-lerobot"} {
		lock, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(m.root, "third_party/fetched", folder, "complete"), string(lock))
	}
	if out, code, _ := m.setup(t, "peers"); out != "" || code != 0 {
		t.Errorf("with the lock installed: exit %d, printed %q", code, out)
	}
}

// The lock file has every peer of the manifest in its version, and each line of it and of
// lerobot's has one version and one hash.
func TestLockHasThePeers(t *testing.T) {
	var m manifest
	if _, err := toml.DecodeFile("manifest.toml", &m); err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("peers.lock")
	if err != nil {
		t.Fatal(err)
	}
	lerobot, err := os.ReadFile("lerobot.lock")
	if err != nil {
		t.Fatal(err)
	}
	spelling := strings.NewReplacer("-", "_", ".", "_")
	versions := map[string]string{}
	line := regexp.MustCompile(`^([A-Za-z0-9._-]+)==(\S+) --hash=sha256:[0-9a-f]{64}\n$`)
	for l := range strings.Lines(string(lerobot)) {
		if !strings.HasPrefix(l, "#") && !line.MatchString(l) {
			t.Errorf("no locked package: %q", l)
		}
	}
	for l := range strings.Lines(string(lock)) {
		if f := line.FindStringSubmatch(l); f != nil {
			versions[spelling.Replace(strings.ToLower(f[1]))] = f[2]
		} else if !strings.HasPrefix(l, "#") {
			t.Errorf("no locked package: %q", l)
		}
	}
	for _, p := range m.Peer {
		name, _, _ := strings.Cut(p.Name, "[")
		if got := versions[spelling.Replace(name)]; got != p.Version {
			t.Errorf("%s is locked at %q, the manifest wants %s (third_party/setup.sh lock-peers)", p.Name, got, p.Version)
		}
	}
}

// The image is built with the version of Go in go.mod, and has everything that the
// program opens at run time: the libraries whose headers were used, the OpenGL that
// doctor checks, and the downloaded files.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string) {
		t.Helper()
		if !strings.Contains(string(text), what) {
			t.Errorf("the Dockerfile has no %q", what)
		}
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want("golang:" + regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(module))[1] + "-bookworm")
	doctor, err := os.ReadFile("../cmd/scalewm/doctor_checks.go")
	if err != nil {
		t.Fatal(err)
	}
	want(regexp.MustCompile(`"apt-get install -y (libegl1 [^"]*)"`).FindStringSubmatch(string(doctor))[1])
	var m manifest
	if _, err := toml.DecodeFile("manifest.toml", &m); err != nil {
		t.Fatal(err)
	}
	for _, w := range m.Wheel {
		if w.Set == "base" {
			want("third_party/fetched/" + w.Name + " ")
		}
	}
	for _, a := range m.Apt {
		headers, ok := strings.CutSuffix(a.Name, "-dev")
		if !ok || a.Set != "base" || headers == "libc6" {
			continue
		}
		depends, err := exec.Command("dpkg-query", "-W", "-f", "${Depends}", a.Name).Output()
		if err != nil {
			t.Skipf("%s is not installed here", a.Name)
		}
		library, _, _ := strings.Cut(string(depends), " ") // the first, of the same version
		if !strings.HasPrefix(library, headers) {
			t.Errorf("%s depends on %s", a.Name, depends)
		}
		want(" " + library)
	}
}

// make test-peers selects tests by their names.
func TestPeerTestsAreNamedSo(t *testing.T) {
	files, err := exec.Command("git", "-C", "..", "grep", "-l", "--untracked", "SCALEWM_PEERS", "--", "*_test.go").Output()
	if err != nil {
		t.Skip("no git checkout")
	}
	for file := range strings.FieldsSeq(string(files)) {
		b, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Split(string(b), "\nfunc ") {
			if strings.Contains(f, "os.Getenv(\"SCALEWM_"+"PEERS\")") && strings.HasPrefix(f, "Test") && !strings.HasPrefix(f, "TestPeers") {
				t.Errorf("%s: %s needs the peers: call it TestPeers...", file, f[:strings.Index(f, "(")])
			}
		}
	}
}
