package tensorfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fileOf(names ...string) *File {
	f := &File{views: map[string]view{}}
	for _, n := range names {
		f.views[n] = view{dtype: "F32"}
	}
	return f
}

func TestRename(t *testing.T) {
	f := fileOf("a", "b", "c")
	err := f.Rename(func(n string) string { return map[string]string{"a": "x", "b": "y"}[n] })
	if err != nil || !cmp.Equal(f.Names(), []string{"x", "y"}) {
		t.Errorf("%v, %v", f.Names(), err)
	}
	refuses(t, "two of one name", f.Rename(func(string) string { return "z" }), `tensors "x" and "y"`)
}

// What is no file of weights is named.
func TestFormatOf(t *testing.T) {
	for head, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid": "git lfs pull",
		"": "neither a zip", "\x80\x02}q\x00.": "neither a zip", "<!DOCTYPE html>": "neither a zip",
		"\x80\x04\x95\x0d\x00\x00\x00\x00\x00\x00\x00" + legacyMagic: "before 1.6",
	} {
		_, err := ParseFile("x.pt", []byte(head))
		refuses(t, head, err, want)
	}
}
