package hdf5

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
)

// The expected values are those of testdata/make.py.
func TestLinks(t *testing.T) {
	f := openFixture(t, "links")
	for _, name := range []string{"state", "chain", "by_group"} {
		checkColumn(t, f, name, 7, fixtureValue)
	}
	want := map[string]string{"group": "a group", "linked": "a group", "hard": "a group", "type": "not a data set", "cycle": "a soft link to nothing",
		"cycle2": "a soft link to nothing", "dangling": "a soft link to nothing", "by_root": "a soft link to nothing", "external": "another file", "root": "another file",
		"attribute fps": "not a single string"}
	for name, reason := range f.Skipped() {
		if strings.HasPrefix(name, strings.Repeat("n", maxName)) {
			want[name] = "256 bytes"
		}
		if want[name] == "" || !strings.Contains(reason, want[name]) {
			t.Errorf("%s is left out: %s", name, reason)
		}
	}
	if len(f.Skipped()) != 12 || len(want) != 12 {
		t.Errorf("left out: %q", f.Skipped())
	}
	f.list.nonColumns["reward"] = "a link to another file"
	f.episodes, f.columns = nil, nil
	oneLine(t, "a column of the layout elsewhere", f.load(1<<20), "column reward cannot be read: it is a link to another file", "hint")
}

// Columns are copied bit for bit, in their own type. Reading integers that float64
// cannot represent is an error.
func TestConvertIsExact(t *testing.T) {
	f := openFixture(t, "links")
	first := map[string]uint64{"t_ns": 1_790_000_000_000_000_001, "t_be": 1<<60 + 1, "t_u": 1<<64 - 1, "nan": 0x7ff0dead00000001}
	for name, want := range first {
		raw, err := f.sets[name].raw(0, f.Rows())
		if err != nil || binary.LittleEndian.Uint64(raw) != want {
			t.Errorf("%s begins with %x, %v", name, raw[:8], err)
		}
		v, err := f.Read(name, 0, f.Rows())
		if inexact := errors.Is(err, dataset.ErrInexact); inexact != (name != "nan") || len(v) != f.Rows() || inexact && !strings.Contains(err.Error(), "reading "+name) {
			t.Errorf("reading %s: %v", name, err)
		}
	}
	out := filepath.Join(t.TempDir(), "out.h5")
	if err := Convert(context.Background(), f, out, Deflate, nil); err != nil {
		t.Fatal(err)
	}
	g := opened(t, out)
	names := slices.Sorted(maps.Keys(f.sets))
	for _, name := range names {
		if IsIndex(name) {
			continue
		}
		a, err1 := f.sets[name].raw(0, f.Rows())
		b, err2 := g.sets[name].raw(0, g.Rows())
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) || f.sets[name].dtype() != g.sets[name].dtype() {
			t.Errorf("%s: %v, %x became %x", name, err, a, b)
		}
	}
	x, err1 := f.Fingerprint()
	y, err2 := g.Fingerprint()
	if x != y || errors.Join(err1, err2) != nil {
		t.Errorf("fingerprints %s and %s, %v, %v", x, y, err1, err2)
	}
	r, err := dataset.Check(t.Context(), g, nil)
	// Three columns with large integers, and no actions to compare with the rows.
	if err != nil || !r.OK() || len(r.Notes) != 4 || !strings.Contains(strings.Join(r.Notes, "\n"), "t_ns") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A float64 has 53 significant bits, so beyond 2^53 it has only multiples of powers
// of two.
func TestInexact(t *testing.T) {
	for v, exact := range map[int64]bool{0: true, 1 << 53: true, 1<<53 + 1: false, 1 << 60: true, -1 << 63: true, 1<<63 - 1: false, -1<<53 - 1: false} {
		b := binary.LittleEndian.AppendUint64(nil, uint64(v))
		for _, d := range []description{{class: classInteger, elem: 8, signed: true}, {class: classInteger, elem: 8}} {
			if v < 0 && !d.signed {
				continue
			}
			if got := d.widen(make([]float64, 1), b) < 0; got != exact {
				t.Errorf("%d: exact %t", v, got)
			}
		}
	}
	if u := (&description{class: classInteger, elem: 8}); u.widen(make([]float64, 1), binary.LittleEndian.AppendUint64(nil, 1<<64-1)) != 0 {
		t.Error("2^64-1 is exact")
	}
}
