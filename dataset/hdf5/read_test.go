package hdf5

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"scalewm/envs"
)

// Many goroutines read one file at once: chunks of 100 and of 7 frames through the
// cache, chunks of one frame directly, and columns whose chunks libhdf5 finds.
func TestParallelReads(t *testing.T) {
	for _, name := range []string{"published", "gzip_7", "gzip_shuffle", "boxes"} {
		f := openFixture(t, name)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(g)))
				frame := make([]byte, envs.FrameBytes)
				for range 30 {
					row := r.IntN(f.Rows())
					if err := f.Frame(row, frame); err != nil {
						t.Error(err)
						return
					}
					for _, p := range []int{0, 70001, envs.FrameBytes - 1} {
						if want := fixturePixel(row, p/3/224, p/3%224, p%3); frame[p] != want {
							t.Errorf("%s: row %d byte %d is %d, want %d", name, row, p, frame[p], want)
						}
					}
				}
			})
		}
		wg.Wait()
	}
	f := openFixture(t, "indexes")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for row := 0; row < f.Rows(); row += 50 {
				v, err := f.Read("btree2", row, row+1)
				if err != nil || v[1] != fixtureValue(row, 1) {
					t.Errorf("row %d: %v %v", row, v, err)
				}
			}
		})
	}
	wg.Wait()
}

// The cache stays within its budget, and chunks that it dropped are read again.
func TestCacheBudget(t *testing.T) {
	var c chunkCache
	f := openFixture(t, "gzip_7")
	big := *f.pixels
	// Two chunks exceed the budget.
	big.chunkBytes = cacheBytes/2 + 1
	big.refs = []chunkRef{{addr: undefAddr}, {addr: undefAddr}, {addr: undefAddr}}
	for range 2 {
		for i := range 3 {
			if b, err := c.get(&big, i); err != nil || len(b) != big.chunkBytes {
				t.Fatal(err)
			}
			if c.bytes > cacheBytes || len(c.items) != 1 || c.order.Len() != 1 {
				t.Errorf("%d bytes in %d chunks", c.bytes, len(c.items))
			}
		}
	}
}

// The fingerprint is one of the data: other chunks, filters, integer types and names
// of index columns give the same one, another value gives another.
func TestFingerprint(t *testing.T) {
	print := func(path string) string {
		t.Helper()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := f.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dir := t.TempDir()
	for _, name := range []string{"published", "gzip_7", "latest", "types"} {
		src := openFixture(t, name)
		for _, filter := range []Filter{Deflate, None} {
			out := filepath.Join(dir, name+string(filter)+".h5")
			if err := Convert(context.Background(), src, out, filter, nil); err != nil {
				t.Fatal(err)
			}
			if got, want := print(out), print(src.Path()); got != want {
				t.Errorf("%s as %s: %s, before %s", name, filter, got, want)
			}
		}
	}
	write := func(name string, change func(*EpisodeData)) string {
		path := filepath.Join(dir, name)
		w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize})
		if err != nil {
			t.Fatal(err)
		}
		e := testEpisode(0, 4)
		change(&e)
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return print(path)
	}
	base := write("base", func(*EpisodeData) {})
	if write("state", func(e *EpisodeData) { e.Columns["state"][5] += 1e-12 }) == base {
		t.Error("a state goes unseen")
	}
	if write("pixel", func(e *EpisodeData) { e.Frames[2][7]++ }) == base {
		t.Error("a pixel goes unseen")
	}
}

// By hand: all 3 of 3 rows, and 256 of 1000 rows with both ends.
func TestSampleRows(t *testing.T) {
	if got := fmt.Sprint(sampleRows(3)); got != "[0 1 2]" {
		t.Error(got)
	}
	s := sampleRows(1000)
	if len(s) != 256 || s[0] != 0 || s[255] != 999 || s[1] != 3 {
		t.Errorf("%d rows, %v ... %v", len(s), s[:3], s[255])
	}
}

func TestConvertStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "d.h5")
	if err := Convert(ctx, openFixture(t, "zstd"), out, Deflate, nil); err != context.Canceled {
		t.Error(err)
	}
	if left, _ := filepath.Glob(out + "*"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Encoded frames give the same file again. Those of other files are an error, and so is a
// flipped bit.
func TestEncodedFrames(t *testing.T) {
	dir := t.TempDir()
	path, again := filepath.Join(dir, "d.h5"), filepath.Join(dir, "again.h5")
	writeTest(t, path, Deflate, 3)
	f := opened(t, path)
	w, err := Create(again, WriterOptions{Columns: testColumns, FrameSize: f.FrameSize(), Attrs: f.Attrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range f.Episodes() {
		ep, err := f.Copy(testColumns, e)
		if err == nil {
			ep.Encoded, err = f.EncodedFrames(e)
		}
		if err == nil {
			err = w.Append(ep)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err1 := os.ReadFile(path)
	b, err2 := os.ReadFile(again)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
		t.Errorf("%d bytes became %d, %v", len(a), len(b), err)
	}
	zstd := filepath.Join(dir, "zstd.h5")
	writeTest(t, zstd, Zstd, 2)
	g := opened(t, zstd)
	_, err = g.EncodedFrames(g.Episodes()[0])
	oneLine(t, "zstd", err, "not stored one by one with deflate")
	a[f.pixels.refs[1].addr+10] ^= 4
	if err := os.WriteFile(again, a, 0o666); err != nil {
		t.Fatal(err)
	}
	g = opened(t, again)
	_, err = g.EncodedFrames(g.Episodes()[0])
	oneLine(t, "a flipped bit", err, "the frame of row 1 of", "the checksum differs")
}

func BenchmarkFrames(b *testing.B) {
	for _, filter := range []Filter{Deflate, Zstd, None} {
		b.Run(string(filter), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "d.h5")
			w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize, Filter: filter})
			if err != nil {
				b.Fatal(err)
			}
			if err := w.Append(testEpisode(0, 50)); err != nil {
				b.Fatal(err)
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			frame, row := make([]byte, envs.FrameBytes), 0
			for b.Loop() {
				if err := f.Frame(row*17%50, frame); err != nil {
					b.Fatal(err)
				}
				row++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
