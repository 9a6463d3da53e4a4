package encode

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
)

// Every prediction equals that of its row alone, for any size of parts.
func TestRollout(t *testing.T) {
	data := dataSet(t, envs.FrameSize)
	j := job(t, data, ref.New())
	j.Blocks, j.Actions = 2, dataset.Moments{Mean: []float64{.5}, Std: []float64{2}}
	if _, err := Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, j.Out).Read(Predicted, 0, rows)
	if err != nil {
		t.Fatal(err)
	}
	z := latents(t, j.World.(*lewm.Model), data)
	actions, err := data.Read("action", 0, rows)
	if err != nil {
		t.Fatal(err)
	}
	predicted := 0
	for _, e := range data.Episodes() {
		for step := range e.Len {
			row := e.Offset + step
			for k := 1; k <= 2; k++ {
				p := got[(row*2+k-1)*5:][:5]
				if step+5*k >= e.Len {
					if !math.IsNaN(p[0]) || !math.IsNaN(p[4]) {
						t.Fatalf("row %d, block %d behind its episode: %v", row, k, p)
					}
					continue
				}
				start, a := make([]float32, 5), make([]float32, 5*k)
				for i := range start {
					start[i] = float32(z[row*5+i])
				}
				for i := range a {
					a[i] = float32((actions[row+i] - .5) / 2)
				}
				want, err := model.Predict(j.World, start, a, k)
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if p[i] != float64(want[i]) {
						t.Fatalf("row %d, block %d: %v, want %v", row, k, p, want)
					}
				}
				predicted++
			}
		}
	}
	if predicted != (2+15+8)+(0+10+3) {
		t.Errorf("%d predictions of episodes of 7, 20 and 13 rows", predicted)
	}

	whole, err := os.ReadFile(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	j.Out, j.partRows = filepath.Join(t.TempDir(), "again.h5"), 7
	if _, err := Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(j.Out); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("other bytes by other parts (%v)", err)
	}
	j.Blocks = 3
	if _, err := Run(t.Context(), j); err == nil {
		t.Error("predictions of 3 blocks took those of 2 for theirs")
	}
}

// A part for the published width (192 numbers per latent) has 2,048 rows. For
// DINO-WM's 256 patches of 384 numbers (docs/sources.md#dino-wm) with 5 blocks, that
// many would take 4 GB. A part has at most 2^23 numbers, 34 MB in float32, but at
// least one row.
func TestPartsFitInMemory(t *testing.T) {
	for width, want := range map[int]int{192: 2048, 5 * 192: 2048, 256 * 384: 85, 5 * 256 * 384: 17, 1 << 24: 1} {
		if got := partRows(width); got != want {
			t.Errorf("rows of %d numbers: parts of %d, want %d", width, got, want)
		}
	}
}

// If all latents or predictions are NaN or infinite, no file is written. If some are,
// their share is reported, without the predictions beyond the end of an episode. The
// latents have 5 numbers.
func TestNotFinite(t *testing.T) {
	spoil := func(w *spoiled, rows ...int) *spoiled { w.rows = rows; return w }
	for _, c := range []struct {
		what   string
		blocks int
		rows   []int // rows of each call of the model that get NaN; nil: all
		want   float64
	}{
		{"latents", 0, nil, 100},
		{"some latents", 0, []int{0}, 100 * 3. / 40}, // one row in each of the batches of 16, 16 and 8 rows
		{"predictions", 2, nil, 100},
		{"some predictions", 2, []int{0}, 100 * 5. / 38}, // parts with 1st and 2nd block: 0-15, 16-31, 32-39, which has no 2nd
	} {
		j := job(t, dataSet(t, envs.FrameSize), ref.New())
		j.World = spoil(&spoiled{World: j.World, predicts: c.blocks > 0}, c.rows...)
		j.Blocks, j.Actions = c.blocks, dataset.Moments{Mean: []float64{.5}, Std: []float64{2}}
		r, err := Run(t.Context(), j)
		_, missing := os.Stat(j.Out)
		switch {
		case c.want == 100 && (err == nil || missing == nil || !strings.Contains(err.Error(), "numbers that the model gave are NaN or infinite (hint: ")):
			t.Errorf("%s: %v, %v", c.what, err, missing)
		case c.want != 100 && (err != nil || missing != nil || math.Abs(r.NaN-c.want) > 1e-9):
			t.Errorf("%s: %g %%, %v, %v; want %g", c.what, r.NaN, err, missing, c.want)
		}
	}
}

// spoiled is a model that returns NaN and infinite numbers.
type spoiled struct {
	model.World
	predicts bool
	rows     []int
}

func (s *spoiled) Encode(dst device.Mat, frames device.Bytes, n int) {
	s.World.Encode(dst, frames, n)
	if !s.predicts {
		s.spoil(dst.RowRange(0, n))
	}
}

func (s *spoiled) Rollout(dst, start, candidates device.Mat, h int) {
	s.World.Rollout(dst, start, candidates, h)
	s.spoil(dst)
}

func (s *spoiled) spoil(m device.Mat) {
	d := s.Device()
	if s.rows == nil {
		d.Fill(m, math.Inf(1))
	}
	for _, i := range s.rows {
		d.Fill(m.RowRange(i, 1), math.NaN())
	}
}
