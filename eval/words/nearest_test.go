package words

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"collect", "eval", "train"}
	for word, want := range map[string]string{"trian": `"train"`, "colect": `"collect"`, "frobnicate": ""} {
		if got := Nearest(word, known); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("Nearest(%q) = %q, want %s", word, got, want)
		}
	}
}

// Distances by hand: substitutions, insertions, deletions.
func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"eval", "eval", 0}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
