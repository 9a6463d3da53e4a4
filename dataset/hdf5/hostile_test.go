package hdf5

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"scalewm/envs"
)

// oneLine checks an error that a user sees: one line, with certain words.
func oneLine(t *testing.T, what string, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than one line: %q", what, err)
	}
	for _, w := range wants {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func TestOpenBadFiles(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile("testdata/gzip_7.h5")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"empty.h5": nil, "text.h5": []byte("not a data set"), "torn.h5": content[:len(content)/2]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		oneLine(t, name, err, path)
	}
	_, err = Open(filepath.Join(dir, "missing.h5"))
	oneLine(t, "missing", err, "missing.h5", "hint")
	pipe := filepath.Join(dir, "pipe.h5")
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "folder", pipe: "pipe", "/dev/null": "device"} {
		_, err = Open(path)
		oneLine(t, path, err, path, want, "hint")
	}
}

// A column of the layout that is not numeric is rejected and not skipped, because
// damage that no checksum covers could be the cause.
func TestLayoutIsRead(t *testing.T) {
	f := openFixture(t, "types")
	for i := range f.list.sets {
		if d := &f.list.sets[i]; d.name == "words" {
			d.name = "reward"
		}
	}
	f.episodes = nil
	oneLine(t, "texts", f.load(1<<20), "column reward cannot be read: not numbers", "hint")
}

// rewrite makes a file by hand, with lens and a column that do not fit each other.
func rewrite(t *testing.T, columns map[string]int, lens, offsets []float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "odd.h5")
	w, err := Create(path, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.episodes = 1
	err = withLib(func() error {
		for name, rows := range columns {
			c, err := w.newColumn(envs.Column{Name: name, DType: "float64", Width: 1})
			if err != nil {
				return err
			}
			if err := c.add(make([]float64, rows)); err != nil {
				return err
			}
			w.columns = append(w.columns, c)
		}
		if err := w.lens.add(lens); err != nil {
			return err
		}
		return w.offsets.add(offsets)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenWrongLayout(t *testing.T) {
	for _, c := range []struct {
		columns       map[string]int
		lens, offsets []float64
		want          string
	}{
		{map[string]int{"angle": 9}, []float64{5, 5}, []float64{0, 5}, "column angle: it has 9 rows, the episodes 10"},
		{nil, []float64{5}, []float64{0, 5}, "ep_len has 1 entries and ep_offset 2"},
		{nil, []float64{5, 0}, []float64{0, 5}, "episode 1 has length 0"},
		{nil, []float64{5}, []float64{-1}, "episode 0 has length 5 at row -1"},
		{nil, nil, nil, "no episodes"},
	} {
		_, err := Open(rewrite(t, c.columns, c.lens, c.offsets))
		oneLine(t, c.want, err, c.want)
	}
}

// Flipped bytes anywhere in a file give the right data, other data or an error of one
// line. Checksums and lengths keep the reader inside its buffers.
func TestFlippedBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"gzip_7", "lzf_growing", "published"} {
		content, err := os.ReadFile("testdata/" + name + ".h5")
		if err != nil {
			t.Fatal(err)
		}
		f := openFixture(t, name)
		// Beyond libhdf5's own structures: only bytes of chunks.
		for range 10 {
			b := bytes.Clone(content)
			ref := f.pixels.refs[r.IntN(len(f.pixels.refs))]
			for range 3 {
				b[int(ref.addr)+r.IntN(int(ref.size))] ^= byte(1 + r.IntN(255))
			}
			path := filepath.Join(t.TempDir(), "flipped.h5")
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			g, err := Open(path)
			if err != nil {
				oneLine(t, name, err)
				continue
			}
			frame := make([]byte, envs.FrameBytes)
			for row := range min(g.Rows(), 3) {
				if err := g.Frame(row, frame); err != nil {
					oneLine(t, name, err, path, "row")
				}
			}
			g.Close()
		}
	}
}

// Files in the earliest format have no checksums, and the global heap never has one.
// libhdf5 reads outside its memory for attributes that are longer than their
// messages, loops for ever on an object of size 0, and accepts object numbers that do
// not exist.
func TestDamagedAttributes(t *testing.T) {
	b, err := os.ReadFile("testdata/plain.h5")
	if err != nil {
		t.Fatal(err)
	}
	heap := bytes.Index(b, []byte("GCOL"))
	// The size of the free space, after the collection's header and its first object.
	free := heap + 16 + 16 + len("tworoom\x00") + 8
	// The length of the name in the attribute's message.
	name := bytes.Index(b, []byte("env\x00")) - 6
	value := bytes.Index(b, binary.LittleEndian.AppendUint64([]byte{7, 0, 0, 0}, uint64(heap)))
	for want, at := range map[string]int{"past the end of the heap": free, "it does not exist": value + 14, "an attribute extends past": name + 1} {
		damaged := bytes.Clone(b)
		damaged[at] ^= 0x10
		path := filepath.Join(t.TempDir(), "damaged.h5")
		if err := os.WriteFile(path, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err = Open(path)
		oneLine(t, want, err, path, want, "hint")
	}
}

// A list that was never written takes no space in a file and could declare any
// length.
func TestClaimedEpisodes(t *testing.T) {
	d := description{name: lenName, class: classInteger, elem: 8, dims: []uint64{maxEpisodes + 1}, layout: layoutContig, offset: undefAddr}
	h := &File{list: &listing{}}
	_, err := h.readIndex(map[string]description{lenName: d}, lenName, 0)
	oneLine(t, "episodes", err, "ep_len claims 4194305 episodes")
}

func TestUnknownFilterIsNamed(t *testing.T) {
	err := pipeline{stages: []filterInfo{{id: 32026}}}.check()
	oneLine(t, "Blosc-2", err, "32026", "hint")
}

func TestFrameBeyondTheEnd(t *testing.T) {
	f := openFixture(t, "zstd")
	frame := make([]byte, envs.FrameBytes)
	oneLine(t, "row 11 of 11", f.Frame(11, frame), "row 11")
	oneLine(t, "row -1", f.Frame(-1, frame))
	_, err := f.Read("nothing", 0, 1)
	oneLine(t, "column", err, `"nothing"`, "state")
	_, err = f.Read("state", 5, 12)
	oneLine(t, "rows", err, "rows 5 to 12 of 11")
}
