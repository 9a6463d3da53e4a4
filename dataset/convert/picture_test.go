package convert

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
)

// Pictures are those that libjpeg decodes, which testdata/make_jpeg.py has asked
// through Pillow. The inverse transforms of Go and libjpeg differ by a level; repeated
// instead of interpolated chroma differs by 40 levels and more.
func TestPicturesOfLibjpeg(t *testing.T) {
	files, err := fs.Glob(os.DirFS("testdata/jpeg"), "*.jpeg")
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		decode := func(name string) picture {
			b, err := os.ReadFile(filepath.Join("testdata/jpeg", name))
			if err != nil {
				t.Fatal(err)
			}
			p, err := readPicture(b)
			if err != nil {
				t.Fatal(name, err)
			}
			return p
		}
		p, want := decode(name), decode(strings.TrimSuffix(name, ".jpeg")+".png")
		if p.width != want.width || p.height != want.height || len(p.rgb) != len(want.rgb) {
			t.Fatalf("%s: %d x %d", name, p.width, p.height)
		}
		sum, most := 0, 0
		for i, v := range p.rgb {
			d := max(int(v)-int(want.rgb[i]), int(want.rgb[i])-int(v))
			sum, most = sum+d, max(most, d)
		}
		mean := float64(sum) / float64(len(p.rgb))
		t.Logf("%s: %.3f levels in the mean, %d at most", name, mean, most)
		if mean > .25 || most > 3 {
			t.Errorf("%s: %.3f levels in the mean, %d at most", name, mean, most)
		}
	}
}

// A picture of any content is read or gives an error, with memory for at most the
// largest frame.
func FuzzPicture(f *testing.F) {
	for _, name := range []string{"420_odd.jpeg", "422.jpeg", "grey.jpeg", "420_5.png"} {
		b, err := os.ReadFile("testdata/jpeg/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b)+1<<20, func() {
			if p, err := readPicture(b); err == nil && len(p.rgb) != 3*p.width*p.height {
				t.Errorf("%d x %d, %d bytes", p.width, p.height, len(p.rgb))
			}
		})
	})
}
