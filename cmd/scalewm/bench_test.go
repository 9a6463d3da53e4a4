package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakePeer speaks the protocol of the scripts without Python; tinyParams is
// what PyTorch counts in the model of tiny.toml.
const (
	fakePeer = `#!/bin/sh
read spec
echo '{"version":"fake","params":` + tinyParams + `,"variants":{"fp32":["fp32","compile"],"bf16":["autocast"],"side":["side_autocast"],"stored":["in_process"],"tworoom":["tworoom/step","tworoom/frame"]}}'
while read name; do
  case "$name" in
  "") echo '{"rss_mb":5}'; exit 0;;
  compile) echo '{"error":"no compiler here"}';;
  autocast) echo '{"ms":4000}';;
  side_autocast) echo '{"ms":2000}';;
  *) echo '{"ms":8000}';;
  esac
done
`
	tinyParams = "31790"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// benchJSON runs the verb on the tiny preset.
func benchJSON(t *testing.T, args ...string) benchReport {
	t.Helper()
	out, errs, code := session(append([]string{"bench", "--json", "--preset", "testdata/tiny.toml", "--rounds", "1"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var r benchReport
	d := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every figure of train and plan, with a peer of which one variant fails.
func TestBench(t *testing.T) {
	r := benchJSON(t, "--what", "plan,train", "--side", "2", "--peer", script(t, fakePeer))
	for name, s := range map[string]*speed{"train": r.Train, "plan": r.Plan} {
		if s == nil {
			t.Fatalf("no %s", name)
		}
		best := fastest(s.FP32MS, s.BF16MS)
		if s.Params != 31790 || s.FP32MS <= 0 || s.GFLOPS <= 0 || s.PeakGFLOPS <= 0 || s.FP32RSSMB <= 0 || s.PeerMS != 4000 ||
			s.Ratio != 4000/best || s.FP32Ratio != 8000/s.FP32MS || !strings.Contains(s.Geometry, "16 clips x 4 frames of 32 px") {
			t.Errorf("%s: %+v", name, s)
		}
		if p := s.Peer; p.Version != "fake" || len(p.MS) != map[string]int{"train": 2, "plan": 3}[name] || p.Dropped["compile"] != "no compiler here" || p.RSSMB != 5 {
			t.Errorf("%s: peer %+v", name, p)
		}
	}
	if r.Train.SideBySide != 0 || r.Plan.SideBySide != 2 || r.Plan.SideMS <= 0 || r.Plan.PeerSideMS != 2000 || r.Plan.SideRatio != 2000/r.Plan.SideMS {
		t.Errorf("side by side: %+v, %+v", r.Train, r.Plan)
	}
	if r.Load != nil || r.Env != nil || len(r.Probes) != 3 || r.Probes[0].FP32 <= 0 || r.Probes[2].When != "after" {
		t.Errorf("parts that nobody asked for, or probes: %+v", r)
	}
}

func TestBenchLoad(t *testing.T) {
	r := benchJSON(t, "--what", "load", "--peer", script(t, fakePeer)).Load
	if r.MS <= 0 || r.ClipsPerS <= 0 || r.DecodeMS <= r.MS || r.StepMS <= 0 || r.FedStepMS <= 0 || r.Share < 0 || r.Share >= 1 ||
		r.Waited < 0 || r.PeerMS != 8000 || r.Ratio != 8000/r.DecodeMS || r.Rows < 100 {
		t.Errorf("%+v", r)
	}
}

// A world of ours and a peer's: rates, and zeros where the peer has none.
func TestBenchEnv(t *testing.T) {
	b := &bench{rounds: 1, peer: script(t, fakePeer), note: t.Logf}
	r := &envReport{Tasks: map[string]*envSpeed{}}
	if err := r.fill(t.Context(), b, []string{"tworoom", "pusht"}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if r.print(&text); !strings.Contains(text.String(), "tworoom") || !strings.Contains(text.String(), "peer 0 and 0") {
		t.Errorf("printed %s", &text)
	}
	if s := r.Tasks["tworoom"]; s.StepsPerS <= s.FramesPerS || s.FramesPerS <= 0 || s.PeerStepsPerS != 0.125 || s.Ratio != s.StepsPerS/0.125 {
		t.Errorf("tworoom: %+v", s)
	}
	if s := r.Tasks["pusht"]; s.StepsPerS <= 0 || s.PeerStepsPerS != 0 || s.Ratio != 0 {
		t.Errorf("pusht: %+v", s)
	}
}

func TestBenchWithoutPeer(t *testing.T) {
	out, errs, code := session("bench", "--preset", "testdata/tiny.toml", "--rounds", "1", "--what", "train")
	if code != exitDone || !strings.Contains(out, "training step: 16 clips") || strings.Contains(out, "peer") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestBenchRefusals(t *testing.T) {
	tiny := []string{"--preset", "testdata/tiny.toml", "--rounds", "1", "--what", "train"}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"what":      {[]string{"--what", "train,speed"}, exitUsage, "env, load, train, plan"},
		"rounds":    {[]string{"--rounds", "0"}, exitUsage, "--rounds 0"},
		"preset":    {[]string{"--preset", "huge"}, exitUsage, "unknown preset"},
		"device":    {append(tiny, "--device", "abacus"), exitUsage, "abacus"},
		"kernels":   {append(tiny, "--what", "kernels", "--device", "cpu"), exitFailed, "kernels are those of a GPU"},
		"no python": {append(tiny, "--peer", "/nowhere/python"), exitFailed, "(hint: "},
		"no torch":  {append(tiny, "--peer", script(t, "#!/bin/sh\necho 'No module named torch' >&2\n")), exitFailed, "No module named torch"},
		"chatter":   {append(tiny, "--peer", script(t, "#!/bin/sh\nread x\necho hello\n")), exitFailed, "hello"},
		"params":    {append(tiny, "--peer", script(t, strings.Replace(fakePeer, tinyParams, "7", 1))), exitFailed, "7 parameters, ours 31790"},
		"data":      {[]string{"--what", "load", "--data", "/nowhere.h5"}, exitFailed, "(hint: "},
	} {
		_, errs, code := session(append([]string{"bench"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, want %d and %q", name, code, errs, c.code, c.want)
		}
	}
}

// The default geometry is the one that PyTorch's times are known of, and 10.77 M
// is its number of parameters (docs/sources.md#parameter-counts).
func TestBenchGeometry(t *testing.T) {
	p, text, err := benchPreset("")
	if err != nil || p.Train.Batch != 32 || p.Train.Directions != 1024 || !strings.HasPrefix(text, "32 clips x 4 frames of 64 px, patch 8, width 192 x 4 layers") {
		t.Errorf("%+v, %s, %v", p, text, err)
	}
}

// The real programs, without compiling: they run, and their models are ours.
func TestBenchPeers(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no interpreter (make setup-peers)")
	}
	t.Setenv("TORCHDYNAMO_DISABLE", "1")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // other tests run beside it
	r := benchJSON(t, "--what", "train,plan,load", "--peer", python)
	for name, n := range map[string]int{"train": len(r.Train.Peer.MS), "plan": len(r.Plan.Peer.MS), "load": len(r.Load.Peer.MS)} {
		if want := map[string]int{"train": 4, "plan": 3, "load": 2}[name]; n != want {
			t.Errorf("%s: %d variants, want %d: %+v", name, n, want, r)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1}, 2.5}, {[]float64{7}, 7}} {
		if got := median(c.v); got != c.want {
			t.Errorf("%v: %g", c.v, got)
		}
	}
	if fastest(0, 3, 2) != 2 || fastest(0) != 0 || over(1, 0) != 0 {
		t.Error("fastest or over")
	}
}
