package doc

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// characters returns a document with every printable character of ASCII, those of tex, and
// some that are in neither, wherever a text can be.
func characters() []Section {
	var all strings.Builder
	for r := ' '; r <= '~'; r++ {
		all.WriteRune(r)
	}
	all.WriteString(string(slices.Sorted(maps.Keys(tex))) + " ж 漢 \U0001F600 -- --- ---- --preset")
	s := all.String()
	return []Section{{Title: s, Level: 1, Parts: []Part{Text{Body: s, Items: []Item{{Name: s, Value: s, Text: s}}}, Text{Style: Commands, Items: []Item{{Text: s}}}}},
		{Title: s, Level: 2, Parts: []Part{Table{Anchor: "a_b#", Caption: s, Head: []string{s, s}, Rows: [][]Field{{Words(s), {Text: s, Bold: true}}, {Words("4 ± 2"), {Text: "5 ± 3", Bold: true}}}}}},
		{Title: s, Level: 3, Parts: []Part{Figure{Caption: s, Panels: nil}}}, {Title: s, Level: 4, Parts: []Part{Film{Caption: s, Cast: s}}}}
}

// The fonts of pdfLaTeX have few characters beyond ASCII, so none is written as it is.
func TestLaTeXIsASCII(t *testing.T) {
	for name, text := range latex(t) {
		for _, r := range text {
			if r > '~' {
				t.Errorf("%s has the character %q", name, r)
			}
		}
	}
	if got := string(LaTeX(characters())); !strings.Contains(got, `$\tau$`) || !strings.Contains(got, "(U+6F22)") || !strings.Contains(got, "-{}-preset") {
		t.Errorf("characters beyond ASCII, or flags, are lost:\n%s", got)
	}
}

// pdfLaTeX compiles documents with all characters, with more tables than it lets wait, and
// the golden report.
func TestLaTeXCompiles(t *testing.T) {
	if _, err := exec.LookPath("pdflatex"); err != nil {
		t.Skip("latex: no pdflatex (hint: apt-get install texlive-latex-recommended)")
	}
	for name, text := range latex(t) {
		dir := t.TempDir()
		main := "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + text + "\\end{document}\n"
		if err := os.WriteFile(filepath.Join(dir, "main.tex"), []byte(main), 0o666); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			_, what, _ := strings.Cut(string(out), "\n!")
			t.Errorf("%s: %v: %s", name, err, what)
		}
	}
}

// latex returns documents in LaTeX by a name.
func latex(t *testing.T) map[string]string {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("..", "testdata", "report.tex"))
	if err != nil {
		t.Fatal(err)
	}
	var many Section
	many.Level = 2
	for range 150 {
		many.Parts = append(many.Parts, Table{Head: []string{"a"}, Rows: [][]Field{{Words("b")}}})
	}
	return map[string]string{"characters": string(LaTeX(characters())), "malicious names": string(LaTeX([]Section{{Title: evil, Level: 1, Parts: []Part{Text{Body: evil}}}})), "many tables": string(LaTeX([]Section{many})), "the golden report": string(golden)}
}
