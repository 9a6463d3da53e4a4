package report

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// pages are made from packed cells: by page, the folder of its cells, both in docs. Cells
// in its folder paper are a report of their own, since protocols are never mixed; the
// anchors of its tables begin with paper/.
var pages = map[string]string{"notes/study.md": "study", "notes/five.md": "notes/five"}

// studyTable matches the places of a page where a table of the report is inserted.
var studyTable = regexp.MustCompile(`(?s)(<!-- table ([a-z/-]+) -->\n).*?(<!-- end -->\n)`)

// The tables of the pages and the figures and report.json of their folders are those of a
// report on the committed cells. The flag -update rewrites them.
func TestStudy(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for page, cells := range pages {
		t.Run(page, func(t *testing.T) { study(t, filepath.Join("..", "..", "docs"), page, cells) })
	}
}

func study(t *testing.T, docs, name, cells string) {
	tables := map[string]string{}
	paper := filepath.Join(docs, cells, "paper")
	if _, err := os.Stat(paper); err == nil {
		studied(t, paper, "paper/", tables)
	}
	r := studied(t, filepath.Join(docs, cells), "", tables)
	all := r.JSON()
	all.Analyses, all.Numbers = nil, nil // megabytes that the cells give
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	page, css := read(t, filepath.Join(docs, name)), read(t, filepath.Join("doc", "page", "style.css"))
	want := map[string]string{
		cells + "/report.json": string(text) + "\n",
		name: studyTable.ReplaceAllStringFunc(page, func(s string) string {
			m := studyTable.FindStringSubmatch(s)
			table, ok := tables[m[2]]
			if !ok {
				t.Errorf("the report has no table %q", m[2])
			}
			return m[1] + "\n" + table + m[3]
		}),
	}
	for _, b := range r.Blocks {
		if b.Solver == "cem" && b.Main == nil {
			figure := strings.Replace(string(r.computeFigure(b)), "<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `, 1)
			head, rest, _ := strings.Cut(figure, ">")
			want[cells+"/"+anchorOf(b.Place)+".svg"] = head + "><style><![CDATA[" + css + "]]></style>" + rest + "\n"
		}
	}
	for name, w := range want {
		path := filepath.Join(docs, name)
		if *update {
			resultstest.Put(t, path, w)
		} else if d := cmp.Diff(w, read(t, path)); d != "" {
			t.Errorf("%s differs from what the cells say (-cells +page; `go test ./eval/report -run TestStudy -update` writes it):\n%s", name, d)
		}
	}
}

// studied returns the report on the packed cells of a folder, and adds its tables under
// their anchors with a prefix.
func studied(t *testing.T, folder, prefix string, tables map[string]string) *Report {
	t.Helper()
	packed, err := filepath.Glob(filepath.Join(folder, "*.tar.zst"))
	if err != nil || len(packed) == 0 {
		t.Fatalf("no cells in %s: %v", folder, err)
	}
	dir := t.TempDir()
	for _, p := range packed {
		unpack(t, p, dir)
	}
	r := reported(t, dir)
	for _, s := range r.Sections() {
		for _, p := range s.Parts {
			if table, ok := p.(doc.Table); ok {
				table.Fold = ""
				_, text, _ := strings.Cut(markdown(table), "\n\n")
				tables[prefix+table.Anchor] = text + "\n"
			}
		}
	}
	return r
}

// reported returns the report on a results folder.
func reported(t *testing.T, dir string) *Report {
	t.Helper()
	c, err := results.Load(t.Context(), dir)
	if err == nil {
		err = c.AddMedia(t.Context(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reportOf(t, &c)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// unpack extracts a .tar.zst to a folder.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resultstest.Put(t, filepath.Join(dir, filepath.FromSlash(h.Name)), string(b))
	}
}
