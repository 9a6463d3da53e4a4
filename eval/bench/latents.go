package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"scalewm/dataset/rng"
	"scalewm/eval/geometry"
)

// LatentsReport is the speed of the analysis of latents: distances between all pairs of
// samples, in latents and in task state, and their rank and linear correlations. Times
// are in milliseconds.
type LatentsReport struct {
	Samples    int         `json:"samples"`
	Dim        int         `json:"dim"`
	Pairs      int         `json:"pairs"`
	MS         float64     `json:"ms"`          // distances and both correlations
	IntervalMS float64     `json:"interval_ms"` // bootstrap with 1,000 draws of 100 episodes
	SpectrumMS float64     `json:"spectrum_ms"` // principal components and their scores
	PeerMS     float64     `json:"peer_ms"`     // distances and both correlations
	Ratio      float64     `json:"ratio"`
	RSSMB      float64     `json:"rss_mb"` // peak memory, without that of the interval
	Peer       *PeerReport `json:"peer,omitempty"`
}

// Sizes of the samples (docs/sources.md#latent-analyses).
const (
	latentSamples = 1500  // number of frames, as published
	latentDim     = 192   // width of LeWM's latents
	wideDim       = 98304 // width of DINO-WM's latents: 256 patches of 384 numbers
	stateDim      = 6
)

// latentWork holds random latents and task states with some alignment.
type latentWork struct {
	z        geometry.Samples[float32] // latents
	q        geometry.Samples[float64] // task states
	episodes []int                     // episode of each sample, 100 in total
}

// newLatentWork draws latents and states. Each state is added to the first latent
// dimensions, so that the correlation is neither 0 nor 1.
func newLatentWork(samples, dim int) latentWork {
	r := rng.Stream("bench latents")
	w := latentWork{z: geometry.Samples[float32]{N: samples, D: dim, X: make([]float32, samples*dim)},
		q: geometry.Samples[float64]{N: samples, D: stateDim}}
	for i := range samples {
		w.episodes = append(w.episodes, i*100/samples)
		row := w.z.Row(i)
		for k := range row {
			row[k] = float32(r.NormFloat64())
		}
		for k := range stateDim {
			w.q.X = append(w.q.X, r.NormFloat64())
			row[k] += 5 * float32(w.q.X[i*stateDim+k])
		}
	}
	return w
}

// align does the work that the peer does too. If c has principal components, distances
// are computed in them.
func (w latentWork) align(c geometry.Components) *geometry.Distances {
	d := geometry.Compare(geometry.SquaredDistances(w.z, c), w.q, w.episodes)
	d.Align(0, nil)
	return d
}

// benchLatents measures latents of LeWM's width, next to the peer.
func benchLatents(ctx context.Context, b *Bench) (err error) {
	b.report.Latents, err = b.timeLatents(ctx, latentSamples, latentDim)
	return err
}

// timeLatents measures the analysis of latents of a width, and the peer's. The interval
// and the spectrum have no counterpart in the peer; they are measured afterwards, and
// the peak of memory before.
func (b *Bench) timeLatents(ctx context.Context, samples, dim int) (*LatentsReport, error) {
	w := newLatentWork(samples, dim)
	dir, err := w.write()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := b.startPeer(ctx, "latents", map[string]any{"dir": dir, "samples": samples, "threads": b.report.Machine.Threads})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	medians, err := b.alternate(ctx, append([]contender{timed("alignment", func(context.Context) error {
		w.align(geometry.Components{})
		return nil
	})}, p.contenders("alignment")...))
	if err != nil {
		return nil, err
	}
	r := &LatentsReport{Samples: samples, Dim: dim, Pairs: samples * (samples - 1) / 2, MS: medians["alignment"], RSSMB: peakMB()}
	if r.Peer, err = p.finish(medians); err != nil {
		return nil, err
	}
	r.PeerMS = r.Peer.best()
	r.Ratio = over(r.PeerMS, r.MS)
	// The remaining measurements have no peer, and start from the distances.
	d := w.align(geometry.Components{})
	medians, err = b.alternate(ctx, []contender{timed("interval", func(context.Context) error {
		d.Align(1000, func(i int) *rand.Rand { return rng.Stream("bench interval", i) })
		return nil
	}), timed("spectrum", func(context.Context) error {
		_, err := geometry.Analyse(w.z)
		return err
	})})
	r.IntervalMS, r.SpectrumMS = medians["interval"], medians["spectrum"]
	return r, err
}

// write writes latents (float32) and states (float64) to a temporary folder for the
// peer, without a header. The caller removes the folder.
func (w latentWork) write() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "scalewm-bench-"); err != nil {
		return "", err
	}
	for name, x := range map[string]any{"z": w.z.X, "q": w.q.X} {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = binary.Write(f, binary.LittleEndian, x)
			if e := f.Close(); err == nil {
				err = e
			}
		}
		if err != nil {
			os.RemoveAll(dir)
			return "", fmt.Errorf("writing latents for the peer: %w", err)
		}
	}
	return dir, nil
}

// benchWide measures latents of DINO-WM's width.
func benchWide(_ context.Context, b *Bench) (err error) {
	b.report.Wide, err = timeWide(latentSamples, wideDim)
	return err
}

// timeWide analyses latents with more dimensions than samples, once. The interesting
// number is the peak of memory: components are computed from the Gram matrix of the
// samples, because the covariance would be 98304 x 98304.
func timeWide(samples, dim int) (*LatentsReport, error) {
	w := newLatentWork(samples, dim)
	r := &LatentsReport{Samples: samples, Dim: dim, Pairs: samples * (samples - 1) / 2}
	var c geometry.Components
	var err error
	r.SpectrumMS, err = timed("", func(context.Context) (err error) { c, err = geometry.Analyse(w.z); return err }).once(context.Background())
	if err != nil {
		return nil, err
	}
	r.MS, err = timed("", func(context.Context) error { w.align(c); return nil }).once(context.Background())
	r.RSSMB = peakMB()
	return r, err
}

// print writes the report for readers.
func (r *LatentsReport) print(out io.Writer) {
	fmt.Fprintf(out, "latents: %d samples of %d numbers, %d pairs\n", r.Samples, r.Dim, r.Pairs)
	fmt.Fprintf(out, "  distances and correlations %.0f ms, components %.0f ms; peak memory %.0f MB\n", r.MS, r.SpectrumMS, r.RSSMB)
	if r.IntervalMS > 0 {
		fmt.Fprintf(out, "  interval of 1,000 draws %.0f ms\n", r.IntervalMS)
	}
	if r.Peer != nil {
		fmt.Fprintf(out, "  peer (%s): %.0f ms, ratio %.2f; ", r.Peer.Version, r.PeerMS, r.Ratio)
		r.Peer.print(out)
	}
}
