package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "scalewm/envs/pusht"
	_ "scalewm/envs/tworoom"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// fakePeer implements the protocol of the Python programs in another language. tinyParams is
// the number of parameters that PyTorch counts in the model of
// ../../cmd/scalewm/testdata/tiny.toml.
const (
	fakePeer = `#!/bin/sh
read spec
echo '{"version":"fake","params":` + tinyParams + `,"variants":{"fp32":["fp32","compile"],"bf16":["autocast"],"side":["side_autocast"],"stored":["in_process"],"alignment":["scipy"],"tworoom":["tworoom/step","tworoom/frame"]}}'
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

// tiny returns a Bench of the tiny model on the CPU.
func tiny(t *testing.T, peer string) *Bench {
	t.Helper()
	p, geometry, err := Preset("../../cmd/scalewm/testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	return &Bench{Preset: p, Geometry: geometry, Rounds: 1, Peer: peer, Device: "cpu", Note: t.Logf,
		Open: func(p device.Precision) (device.Device, error) { return cpu.New(cpu.Options{Precision: p}) }}
}

func (b *Bench) measured(t *testing.T, parts ...string) *Report {
	t.Helper()
	r, err := b.Run(t.Context(), parts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every number of train and plan is checked, with a peer one of whose variants fails.
func TestBench(t *testing.T) {
	b := tiny(t, script(t, fakePeer))
	b.Side = 2
	r := b.measured(t, "plan", "train")
	for name, s := range map[string]*Speed{"train": r.Train, "plan": r.Plan} {
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
	r := tiny(t, script(t, fakePeer)).measured(t, "load").Load
	if r.MS <= 0 || r.ClipsPerS <= 0 || r.DecodeMS <= r.MS || r.StepMS <= 0 || r.FedStepMS <= 0 || r.Share < 0 || r.Share >= 1 ||
		r.Waited < 0 || r.PeerMS != 8000 || r.Ratio != 8000/r.DecodeMS || r.Rows < 100 {
		t.Errorf("%+v", r)
	}
}

// Our world and a peer's are measured. Numbers that the peer lacks are 0.
func TestBenchEnv(t *testing.T) {
	b := tiny(t, script(t, fakePeer))
	r := &EnvReport{Tasks: map[string]*EnvSpeed{}}
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

// Mistakes of a peer are reported with a reason, and a hint or the last line of its
// output.
func TestBenchPeerRefused(t *testing.T) {
	for name, c := range map[string][2]string{
		"no python": {"/nowhere/python", "(hint: "},
		"no torch":  {script(t, "#!/bin/sh\necho 'No module named torch' >&2\n"), "No module named torch"},
		"chatter":   {script(t, "#!/bin/sh\nread x\necho hello\n"), "hello"},
		"params":    {script(t, strings.Replace(fakePeer, tinyParams, "7", 1)), "7 parameters, ours 31790"},
	} {
		if _, err := tiny(t, c[0]).Run(t.Context(), []string{"train"}); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
}

// Latents are measured next to the peer, and wide latents once without it.
func TestLatents(t *testing.T) {
	b := tiny(t, script(t, fakePeer))
	r, err := b.timeLatents(t.Context(), 120, 16)
	if err != nil || r.Pairs != 120*119/2 || !(r.MS > 0 && r.IntervalMS > 0 && r.SpectrumMS > 0) || r.PeerMS != 8000 || r.Ratio != 8000/r.MS {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = timeWide(30, 5000); err != nil || !(r.MS > 0 && r.SpectrumMS > 0) {
		t.Errorf("%+v, %v", r, err)
	}
}

// The default geometry is the one for which times of PyTorch are known. It has 10.77 M
// parameters (docs/sources.md#parameter-counts).
func TestBenchGeometry(t *testing.T) {
	p, text, err := Preset("")
	if err != nil || p.Train.Batch != 32 || p.Train.Directions != 1024 || !strings.HasPrefix(text, "32 clips x 4 frames of 64 px, patch 8, width 192 x 4 layers") {
		t.Errorf("%+v, %s, %v", p, text, err)
	}
	// The paper's projector has no hidden layer.
	if p, _, err = Preset("", "reading=paper"); err != nil || (&Bench{Preset: p}).geometry().Projector != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The Python programs run, without compiling, and their models have our number of
// parameters.
func TestPeersBench(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no interpreter (make setup-peers)")
	}
	t.Setenv("TORCHDYNAMO_DISABLE", "1")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // other tests run at the same time
	r := tiny(t, python).measured(t, "train", "plan", "load", "latents")
	for name, c := range map[string]struct {
		peer *PeerReport
		want int
	}{"train": {r.Train.Peer, 4}, "plan": {r.Plan.Peer, 5}, "load": {r.Load.Peer, 2}, "latents": {r.Latents.Peer, 1}} {
		for variant, why := range c.peer.Dropped {
			if !strings.Contains(why, "no fast bf16 GEMM for this CPU") {
				t.Errorf("%s: %s: %s", name, variant, why)
			}
		}
		if n := len(c.peer.MS) + len(c.peer.Dropped); n != c.want {
			t.Errorf("%s: %d variants, want %d: %+v", name, n, c.want, c.peer)
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
