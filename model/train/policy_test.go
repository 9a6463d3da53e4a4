package train

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/model"
	_ "scalewm/model/amortised"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/features"
	"scalewm/model/train/metrics"
	"scalewm/model/train/testdata/line"
	"scalewm/model/weights"
)

// straight returns a world in which a dot moves along a straight line through the frame,
// at another velocity in each episode: the action is the way to any later row, divided by
// the number of env steps to it.
func straight() *world {
	w := newWorld()
	for e := range episodes {
		first, last := w.pos[2*e*length:][:2], w.pos[2*(e*length+length-1):][:2]
		v := [2]float64{(last[0] - first[0]) / length, (last[1] - first[1]) / length}
		for s := range length {
			for d := range 2 {
				at := 2*(e*length+s) + d
				w.pos[at], w.act[at] = first[d]+v[d]*float64(s), v[d]
			}
		}
	}
	return w
}

// policyOptions returns options of a training of gcidm on the latents of an encoder.
// limit is that of the features' cache.
func policyOptions(t *testing.T, encoder Options, limit features.Limit) Options {
	t.Helper()
	mustRun(t, encoder)
	c, side, err := model.Open(encoder.Out, "")
	if err != nil {
		t.Fatal(err)
	}
	family, err := model.FamilyOf(model.FamilyGCIDM)
	if err != nil {
		t.Fatal(err)
	}
	section := family.New()
	if err := json.Unmarshal([]byte(`{"width":16,"layers":2,"dropout":0.1,"max_horizon":10}`), section); err != nil {
		t.Fatal(err)
	}
	o := options(t, "gcidm")
	if o.Model, err = section.Geometry(o.Method, 2, &model.FrozenEncoder{Arm: side.Method, SHA256: side.SHA256, Checkpoint: c}); err != nil {
		t.Fatal(err)
	}
	o.Data, o.DataPath = straight(), filepath.Join(t.TempDir(), "d.h5")
	o.Frames = func(context.Context) (dataset.FrameReader, func() error, error) {
		return o.Data.(*world), func() error { return nil }, nil
	}
	o.Features = func(ctx context.Context, frames dataset.FrameReader, m model.World) (Features, error) {
		s, _, err := features.Open(ctx, features.Options{Data: o.Data, Frames: frames, Path: o.DataPath, Encode: model.NewEncoder(m).Latents, Limit: limit,
			Key: features.Key{Backbone: m.Info().Backbone, Patches: 1, Width: m.Info().Dim, Float32: true}})
		return s, err
	}
	return o
}

// A policy's training that is interrupted after any step, and one with another number of
// workers and without a cache of features, end with the same bytes.
func TestPolicyResumes(t *testing.T) {
	whole := policyOptions(t, options(t, model.Untrained), features.Auto)
	mustRun(t, whole)
	want := folder(t, whole.Out)
	side, err := weights.ReadSidecar(filepath.Join(whole.Out, weights.SidecarName))
	if err != nil || side.Encoder != model.Untrained || side.Backbone != whole.Model.Info().Backbone || side.Kind != model.FamilyGCIDM {
		t.Errorf("the sidecar %+v, %v", side, err)
	}
	for stop := range int64(whole.Config.Steps) {
		o := policyOptions(t, options(t, model.Untrained), features.Off)
		o.Workers = 1
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(done, _ int64, _ string) {
			if done > stop {
				cancel()
			}
		}
		if _, err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("stopped after step %d ", stop+1)) {
			t.Fatalf("stopped after step %d: %v", stop+1, err)
		}
		o.Progress = nil
		mustRun(t, o)
		sameFolder(t, fmt.Sprintf("stopped after step %d", stop+1), folder(t, o.Out), want)
	}
}

// Where the action follows from latent, goal and time left, the validation loss falls far
// below 1, that of predicting 0, the mean of z-scored actions.
func TestPolicyLearns(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	encoder := options(t, model.Untrained)
	encoder.Method.Family, encoder.Model = "line", line.Config{FrameSize: frameSize, Dim: 16, FrameSkip: 1, ActionDim: 2}
	o := policyOptions(t, encoder, features.Off)
	o.Dev = dev
	o.Config.Batch, o.Config.Steps, o.Config.EvalEvery, o.Config.SaveEvery, o.Config.Final = 16, 1000, 1000, 1000, .01
	mustRun(t, o)
	rows, err := metrics.Read(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	last := rows[len(rows)-1]
	if last.Split != metrics.Val || !(last.Loss < 0.3) {
		t.Errorf("the last row is %s with a loss of %g", last.Split, last.Loss)
	}
}
