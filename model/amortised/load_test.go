package amortised

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/weights"
)

// converted writes a checkpoint as `weights convert` writes it for PyTorch, and returns
// the folder.
func converted(t *testing.T, c *model.Checkpoint, s *weights.Sidecar, transformers int) string {
	t.Helper()
	ts, config, err := c.Published(transformers)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, weights.HydraName), config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := weights.Save(filepath.Join(dir, weights.PTName), ts, s); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A checkpoint is converted to PyTorch's form and back, with the names of both versions
// of transformers. The encoder's tensors have their published names, which differ by
// version, after their prefix.
func TestThereAndBack(t *testing.T) {
	for name, network := range networks {
		for of, encoder := range map[string]model.Geometry{"lewm": single, "dinowm": patched} {
			for _, version := range []int{4, 5} {
				m := policy(t, ref.New(), network, encoder, false)
				ours, side := opened(t, m.Dev, m, m.Cfg)
				dir := converted(t, ours, side, version)
				f, err := tensorfile.Open(filepath.Join(dir, weights.PTName))
				if err != nil {
					t.Fatal(err)
				}
				query := map[string][2]string{"lewm": {"encoder.layer.0.attention.attention.query", "layers.0.attention.q_proj"},
					"dinowm": {"encoder.layer.0.attention.attention.query", "encoder.layer.0.attention.q_proj"}}[of][version-4]
				inner := map[string]string{"lewm": "encoder.", "dinowm": "backbone."}[of]
				if want := encoderPrefix + inner + query + ".weight"; !f.Has(want) {
					t.Errorf("%s on %s: no tensor %s among %q", name, of, want, f.Names())
				}
				back, _, err := model.Open(dir, "")
				if err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(back.Tensors, ours.Tensors, func(a, b tensorfile.Tensor) bool {
					return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.F32, b.F32) && slices.Equal(a.I64, b.I64)
				}) {
					t.Errorf("%s on %s came back with other tensors", name, of)
				}
				if err := os.Remove(filepath.Join(dir, weights.SidecarOf(weights.PTName))); err != nil {
					t.Fatal(err)
				}
				_, _, err = model.Open(dir, "")
				refused(t, "no sidecar", err, "sidecar weights.json is missing")
			}
		}
	}
}

func refused(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("%s: %v, want %q and a hint", name, err, want)
	}
}

// Encoders that cannot serve a policy are errors before any work.
func TestErrors(t *testing.T) {
	proprio := patched
	proprio.Proprio, proprio.ProprioEmbedding = 4, 2
	wide := single
	wide.ActionDim = 3
	head := policy(t, ref.New(), networks["gcidm"], single, false).Cfg
	for name, c := range map[string]struct {
		encoder model.Geometry
		want    string
	}{"a policy": {head, "itself a policy"}, "another task": {wide, "actions of 3 numbers, the policy's have 2"}, "proprioception": {proprio, "proprioception"}} {
		f := frozen(t, single)
		f.Geometry = c.encoder
		_, err := on(networks["gcbc"], 2, f)
		refused(t, name, err, c.want)
	}
	g, err := on(networks["gcidm"], 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Declare()
	refused(t, "no encoder", err, "--encoder")
	for want, n := range map[string]Network{"width": GCIDM{Layers: 1, MaxHorizon: 1}, "dropout": GCIDM{Width: 1, Layers: 1, MaxHorizon: 1, Dropout: 1},
		"max_horizon": GCIDM{Width: 1, Layers: 1}, "depth": GCBC{Depth: 2, Heads: 1, HeadDim: 1, MLP: 1, History: 1}, "history": GCBC{Depth: 3, Heads: 1, HeadDim: 1, MLP: 1}} {
		_, err := on(n, 2, nil)
		refused(t, want, err, want)
	}
}

// The FLOP are counted by hand at the published sizes on latents of 192 numbers, for
// actions of 2: each term is multiply-adds of one layer for one clip.
func TestFLOP(t *testing.T) {
	idm := GCIDM{Width: 512, Layers: 3, MaxHorizon: 50}
	if got, want := idm.flop(7, 1, 192, 2), 2.*7*(384*512+2*512*512+512*2+2*51*512); got != want {
		t.Errorf("GC-IDM: %g, want %g", got, want)
	}
	bc := GCBC{Depth: 6, Heads: 16, HeadDim: 64, MLP: 2048, History: 3}
	const square, attention = 192 * 1024, 2 * 6 * 1024 // 1 + 2 + 3 pairs of frames
	self, goal, last := 3*(3*4*square+attention), 2*2*square, 3*3*square+attention
	if got, want := bc.flop(1, 3, 192, 2), 2.*float64(self+goal+last+3*6*2*192*2048+3*192*2); got != want {
		t.Errorf("GCBC: %g, want %g", got, want)
	}
	m := policy(t, ref.New(), networks["gcbc"], single, false)
	if got, want := m.Cfg.StepFLOP(5, 0), 3*m.Cfg.Network.flop(5, 3, 6, 2)+single.EncodeFLOP(20); got != want || m.Cfg.PlanFLOP(3, 2) != single.PlanFLOP(3, 2) {
		t.Errorf("a step: %g, want %g; a rollout: %g, want %g", got, want, m.Cfg.PlanFLOP(3, 2), single.PlanFLOP(3, 2))
	}
}

// TestPeers constructs stable-worldmodel's Predictor from a converted config.json, loads
// its weights strictly (testdata/load_strict.py) and compares actions.
func TestPeers(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with torch and stable-worldmodel")
	}
	dev := ref.New()
	m := policy(t, dev, networks["gcbc"], single, false)
	ours, side := opened(t, dev, m, m.Cfg)
	var errs strings.Builder
	cmd := exec.Command(python, "testdata/load_strict.py", converted(t, ours, side, 5))
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var want []float64
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	w, err := m.World()
	if err != nil {
		t.Fatal(err)
	}
	z := device.NewMat(dev, 2, 6)
	dev.Upload(z, []float32{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.1})
	act := device.NewMat(dev, 1, 2)
	w.(model.Actor).Act(act, z.RowRange(0, 1), z.RowRange(1, 1), upload(dev, []float64{1}, 1))
	if got := download(dev, act); !near(got, want, 1e-6) {
		t.Errorf("acts %v, the original %v", got, want)
	}
}

// FuzzDecode reads the config of a sidecar: no input may panic, take much memory or give
// an invalid geometry.
func FuzzDecode(f *testing.F) {
	for _, network := range networks {
		config, err := json.Marshal(Config{network, 2, &Encoder{"lewm", "lewm", single, "ab", nil}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(config))
	}
	f.Add(`{"network":{"width":4,"layers":1,"max_horizon":3},"action_dim":2,"encoder":{"kind":"gcidm","config":{"encoder":{"kind":"gcidm"}}}}`)
	f.Add(`{"network":null,"encoder":{"kind":"dinowm","config":null}}`)
	f.Fuzz(func(t *testing.T, config string) {
		for _, name := range []string{model.FamilyGCIDM, model.FamilyGCBC} {
			family, err := model.FamilyOf(name)
			if err != nil {
				t.Fatal(err)
			}
			var g model.Geometry
			fuzztest.Read(t, len(config), func() {
				if g, err = family.Decode([]byte(config)); err == nil {
					err = g.Validate()
				}
			})
			if err == nil {
				g.Describe()
				_, err = g.Declare()
			}
			if err != nil && !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("no hint: %v", err)
			}
		}
	})
}
