package report

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// browser opens the page in the Chromium that SCALEWM_BROWSER names, and collects its
// console messages and its requests to the network.
func browser(t *testing.T, page string) (ctx context.Context, complaints func() []string) {
	t.Helper()
	path := os.Getenv("SCALEWM_BROWSER")
	if path == "" {
		t.Skip("browser: SCALEWM_BROWSER names no Chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var bad []string
	say := func(s string) { mu.Lock(); bad = append(bad, s); mu.Unlock() }
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			say("console " + string(ev.Type))
		case *runtime.EventExceptionThrown:
			say("exception " + ev.ExceptionDetails.Text)
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
				say("request " + u)
			}
		}
	})
	if err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	watch := chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		return err
	})
	if err := chromedp.Do(ctx, watch, chromedp.Navigate("file://"+page)); err != nil {
		t.Fatalf("opening %s: %v", page, err)
	}
	return ctx, func() []string { mu.Lock(); defer mu.Unlock(); return bad }
}

// seen is the state of the page before and after a click on the head of T1.
type seen struct {
	Heading string `json:"heading"`
	First   string `json:"first"`
	Mean    string `json:"mean"`
	Sorted  string `json:"sorted"`
	Clips   int    `json:"clips"`
	Wide    bool   `json:"wide"`
}

const look = `(() => {
	const text = s => document.querySelector(s).innerText;
	const row = "table.sortable tbody ";
	const out = {heading: text("h1"), first: text(row + "th"), mean: text(row + "tr:nth-child(2) td:nth-child(2)")};
	document.querySelector("table.sortable thead th:nth-child(2) button").click();
	out.sorted = text(row + "th");
	out.clips = [...document.images].filter(i => i.complete && i.naturalWidth > 0).length;
	out.wide = document.documentElement.scrollWidth > innerWidth;
	return out;
})()`

// The page of a study with eight seeds is under 12,000 pixels high before folds are opened,
// and a link to a folded section opens it.
func TestStudyInBrowser(t *testing.T) {
	if os.Getenv("SCALEWM_BROWSER") == "" {
		t.Skip("browser: SCALEWM_BROWSER names no Chromium")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	resultstest.Put(t, page, string(rendered(t, reportOf(t, eightSeeds(t, infer.PaperSolvers...)))["report.html"]))
	ctx, complaints := browser(t, page)
	const height = `document.documentElement.scrollHeight`
	folded, err := chromedp.Run(ctx, chromedp.Evaluate[int](height))
	if err != nil {
		t.Fatal(err)
	}
	if folded < 3000 || folded >= 12000 {
		t.Errorf("the page is %d pixels high, want less than 12,000", folded)
	}
	open, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`(() => { location.hash = "#reacher-cem-paired"; unfold(); return document.getElementById("reacher-cem").firstElementChild.open; })()`))
	if err != nil || !open {
		t.Errorf("the section that the address names is open: %v, %v", open, err)
	}
	if bad := complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %v", bad)
	}
}

// On a page of A4 with margins of 14 mm, 688 pixels wide, no table and no figure is wider.
func TestPrintInBrowser(t *testing.T) {
	if os.Getenv("SCALEWM_BROWSER") == "" {
		t.Skip("browser: SCALEWM_BROWSER names no Chromium")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	// The style of printed pages for the screen, with all folds open.
	text := strings.Replace(string(rendered(t, reportOf(t, eightSeeds(t, results.CEM)))["report.html"]), "@media print", "@media all", 1)
	resultstest.Put(t, page, strings.ReplaceAll(text, "<details>", "<details open>"))
	ctx, _ := browser(t, page)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(688, 900)); err != nil {
		t.Fatal(err)
	}
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("table, svg")].filter(e => e.getBoundingClientRect().right > 689).map(e => (e.closest("section") || {}).id + " " + e.getBoundingClientRect().right + " " + e.innerText)`))
	if err != nil || len(wide) > 0 {
		t.Errorf("cut off in print: %v, %v", wide, err)
	}
}

func TestPageInBrowser(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	resultstest.Put(t, page, string(rendered(t, complete(t))["report.html"]))
	ctx, complaints := browser(t, page)
	got, err := chromedp.Run(ctx, chromedp.Evaluate[seen](look))
	if err != nil {
		t.Fatal(err)
	}
	want := seen{Heading: "Planning with latent world models on Two-Room", First: "LeWM", Mean: "96.7 ± 5.8", Sorted: "Random", Clips: 3}
	if got != want {
		t.Errorf("the page shows %+v, want %+v", got, want)
	}
	if bad := complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %v", bad)
	}
}
