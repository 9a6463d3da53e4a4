package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/train"
)

// LoadReport is the speed of reading batches from a data set, and what the loader costs a
// training step that runs on the same cores. Times are in milliseconds per batch or step.
type LoadReport struct {
	Geometry  string  `json:"geometry"`
	Data      string  `json:"data"`
	Rows      int     `json:"rows"`
	MS        float64 `json:"ms"` // a batch with frames of the model's size, as in training
	ClipsPerS float64 `json:"clips_per_s"`
	// DecodeMS and DecodeClipsPerS are for frames as they are stored (224 px), decoded from
	// the file. This is what the peer does.
	DecodeMS        float64     `json:"decode_ms"`
	DecodeClipsPerS float64     `json:"decode_clips_per_s"`
	StepMS          float64     `json:"step_ms"`      // a training step on a batch in memory
	FedStepMS       float64     `json:"fed_step_ms"`  // a training step on batches of the loader
	Share           float64     `json:"loader_share"` // share of FedStepMS that the loader costs
	Waited          float64     `json:"waited_share"` // share of FedStepMS spent waiting for a batch
	PeerMS          float64     `json:"peer_ms"`      // frames as stored, the peer's fastest variant
	Ratio           float64     `json:"ratio"`        // PeerMS / DecodeMS
	RSSMB           float64     `json:"rss_mb"`       // peak memory
	Peer            *PeerReport `json:"peer,omitempty"`
}

// A run begins with leadIn batches that do not count: the loader prefetches, so the first
// batches cost more than their share and later ones less. The counted batches follow, in
// the steady state.
const (
	leadIn  = 3
	counted = 4
)

// loading is the work of this part: one file that is read in two ways.
type loading struct {
	b      *Bench
	src    dataset.Source
	clips  []dataset.Clip
	action dataset.Moments // mean and deviation of actions
	dev    device.Device
	trial  *train.Trial
	waited []float64 // time that fed steps waited for a batch, in ms per step, by run
}

// benchLoad measures reading, training steps, and training steps on batches of the
// loader. The difference of the last two is the cost of the loader, which runs on the
// same cores: waiting for a batch is only a part of it.
func benchLoad(ctx context.Context, b *Bench) error {
	path, remove, err := b.loadData(ctx)
	if err != nil {
		return err
	}
	defer remove()
	src, err := hdf5.Open(path)
	if err != nil {
		return err
	}
	defer src.Close()
	r := &LoadReport{Geometry: b.Geometry, Data: b.Data, Rows: src.Rows()}
	if b.Data == "" {
		r.Data = "collected for this"
	}
	b.report.Load = r
	p, err := b.startPeer(ctx, "load", map[string]any{"path": path, "batch": b.Preset.Train.Batch, "frames": b.geometry().History + 1,
		"skip": b.geometry().FrameSkip, "threads": b.report.Machine.Threads})
	if err != nil {
		return err
	}
	defer p.kill()
	medians, err := b.timeLoading(ctx, src, path, p)
	if err != nil {
		return err
	}
	r.RSSMB = peakMB()
	if r.Peer, err = p.finish(medians); err != nil {
		return err
	}
	r.MS, r.DecodeMS, r.StepMS, r.FedStepMS = medians["sized"], medians["stored"], medians["step"], medians["fed"]
	clips := float64(b.Preset.Train.Batch) * 1000
	r.ClipsPerS, r.DecodeClipsPerS = clips/r.MS, clips/r.DecodeMS
	// The median of fed steps can come out below that of plain steps when the loader costs
	// next to nothing.
	r.Share, r.Waited = max(0, 1-r.StepMS/r.FedStepMS), medians["waited"]/r.FedStepMS
	r.PeerMS = r.Peer.best()
	r.Ratio = over(r.PeerMS, r.DecodeMS)
	return nil
}

// loadData returns the path of the data set to read, and a function that removes what
// was made for it: the user's data set, or newly collected episodes of Two-Room.
func (b *Bench) loadData(ctx context.Context) (path string, remove func(), err error) {
	if b.Data != "" {
		return b.Data, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "scalewm-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("creating a data set to read: %w (hint: give one with --data)", err)
	}
	remove = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, "tworoom.h5")
	job, err := collect.Prepare(ctx, path, collect.Spec{Task: "tworoom", Episodes: 20, Seed: 1})
	if err == nil {
		defer job.Close()
		b.Note("collecting 20 episodes of Two-Room")
		_, err = job.Run(ctx, 0, nil)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// timeLoading opens frames, device and model, and times reading, training and the peer.
// Clips are normalized as in training, by the moments of the actions.
func (b *Bench) timeLoading(ctx context.Context, src *hdf5.File, path string, p *peer) (map[string]float64, error) {
	col, err := dataset.FindColumn(src, "action")
	if err != nil {
		return nil, err
	}
	m := b.geometry()
	m.ActionDim = col.Width
	l := &loading{b: b, src: src, clips: dataset.Clips(src, m.History+1, m.FrameSkip)}
	if l.action, err = dataset.ColumnMoments(src, "action", nil, 0); err != nil {
		return nil, err
	}
	o := train.Options{Data: src, DataPath: path, Model: m}
	sized, closeFrames, err := o.OpenFrames(ctx)
	if err != nil {
		return nil, err
	}
	defer closeFrames()
	precision := device.FP32
	if cpu.HasBF16() {
		precision = device.BF16
	}
	dev, err := b.Open(precision)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	l.dev = dev
	if l.trial, err = b.trial(dev, m); err != nil {
		return nil, err
	}
	defer l.trial.Free()
	return l.run(ctx, sized, p)
}

// run lets the contenders alternate, and returns their medians.
func (l *loading) run(ctx context.Context, sized dataset.FrameReader, p *peer) (map[string]float64, error) {
	// Training reads frames at the size of the model (sized). The peer decodes frames as they
	// are stored, so ours are read like that too (stored).
	stored := dataset.Original(l.src)
	l.b.Note("%d rounds of reading, training and training that is fed", l.b.Rounds)
	medians, err := l.b.alternate(ctx, append([]contender{
		{"step", l.steps},
		{"fed", func(ctx context.Context) (float64, error) { return l.turn(ctx, sized, l.trial.StepFrom) }},
		{"stored", func(ctx context.Context) (float64, error) { return l.turn(ctx, stored, nil) }},
		{"sized", func(ctx context.Context) (float64, error) { return l.turn(ctx, sized, nil) }},
	}, p.contenders("stored")...))
	if err == nil {
		medians["waited"] = median(l.waited)
	}
	return medians, err
}

// steps returns the time of a training step on a batch in memory.
func (l *loading) steps(context.Context) (float64, error) {
	if err := l.trial.Step(); err != nil {
		return 0, err
	}
	began := time.Now()
	for range counted {
		if err := l.trial.Step(); err != nil {
			return 0, err
		}
	}
	return milliseconds(began) / counted, nil
}

// turn returns the time of a batch that is read through frames and, unless fed is nil,
// trained on.
func (l *loading) turn(ctx context.Context, frames dataset.FrameReader, fed func(context.Context, *dataset.Loader, int) error) (float64, error) {
	m := l.b.geometry()
	loader, err := dataset.NewLoader(l.src, frames, l.clips, dataset.LoaderOptions{Batch: l.b.Preset.Train.Batch, Frames: m.History + 1,
		Skip: m.FrameSkip, Seed: 1, Action: l.action, Pixels: l.dev})
	if err != nil {
		return 0, err
	}
	defer func() {
		l.dev.Sync() // queued kernels may still read the memory of the loader
		loader.Close()
	}()
	// Time only the batches after the lead-in. Each run opens a new loader with the same seed,
	// so all runs read the same clips.
	var began time.Time
	var waited time.Duration
	for i := range leadIn + counted {
		if i == leadIn {
			began, waited = time.Now(), loader.Waited()
		}
		if fed != nil {
			err = fed(ctx, loader, i)
		} else {
			_, err = loader.Batch(ctx, i)
		}
		if err != nil {
			return 0, err
		}
	}
	if fed != nil {
		l.waited = append(l.waited, (loader.Waited()-waited).Seconds()*1000/counted)
	}
	return milliseconds(began) / counted, nil
}

// print writes the report for readers.
func (r *LoadReport) print(w io.Writer) {
	fmt.Fprintf(w, "loading: %s; %s, %d rows\n", r.Geometry, r.Data, r.Rows)
	fmt.Fprintf(w, "  a batch %.2f ms (%.0f clips/s); from the file at 224 px %.1f ms (%.0f clips/s); peak memory %.0f MB\n", r.MS, r.ClipsPerS, r.DecodeMS, r.DecodeClipsPerS, r.RSSMB)
	fmt.Fprintf(w, "  training step %.1f ms, fed %.1f ms: the loader takes %.1f %% (%.1f %% waiting)\n", r.StepMS, r.FedStepMS, 100*r.Share, 100*r.Waited)
	if r.Peer != nil {
		fmt.Fprintf(w, "  peer (%s): %.1f ms a batch at 224 px, ratio %.2f\n  peer's variants: ", r.Peer.Version, r.PeerMS, r.Ratio)
		r.Peer.print(w)
	}
}
