package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"scalewm/eval/results/resultstest"
)

// TestPictures writes the picture of a report in the README (make pictures): the first
// screen of the report on the results folder that SCALEWM_PICTURES names.
func TestPictures(t *testing.T) {
	dir := os.Getenv("SCALEWM_PICTURES")
	if dir == "" {
		t.Skip("pictures: SCALEWM_PICTURES names no results folder (make pictures)")
	}
	r := reported(t, dir)
	files, err := r.Render([]string{"html"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	resultstest.Put(t, path, string(files[0].Bytes))
	ctx, _ := browser(t, path)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1180, 980)); err != nil {
		t.Fatal(err)
	}
	screen, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	resultstest.Put(t, filepath.Join("..", "..", "docs", "img", "report.png"), string(screen))
}
