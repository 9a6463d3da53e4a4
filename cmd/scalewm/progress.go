package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
)

// progress shows the progress of long work on stderr: as a bar on a terminal, else as
// a line every 30 seconds, which suits log files. Its method report is the progress
// function that libraries call.
type progress struct {
	mu      sync.Mutex // guards bar and last
	w       io.Writer
	what    string          // title
	bar     *pb.ProgressBar // nil unless w is a terminal
	started time.Time
	last    time.Time // of the last line
}

// newProgress starts to show progress under the title what. The caller calls report,
// and close at the end.
func newProgress(stderr io.Writer, what string) *progress {
	p := &progress{w: stderr, what: what, started: time.Now(), last: time.Now()}
	if screen := terminal(stderr); screen != nil {
		const tmpl = `{{string . "what"}} {{counters . }} {{bar . "[" "=" ">" " " "]"}} {{percent . }} {{rtime . "ETA %s"}} {{string . "note"}}`
		p.bar = pb.ProgressBarTemplate(tmpl).New(0).SetWriter(screen)
		p.bar.Set("what", what)
		p.bar.Start()
	}
	return p
}

// terminal returns the terminal behind a stream, on which bars may be drawn; nil if
// it is something else.
func terminal(w io.Writer) *os.File {
	if p, ok := w.(*safeWriter); ok {
		return terminal(p.Writer)
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	// A character device; a pipe or a file is not.
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return f
}

// report shows that done of total units are finished. It may be called from any
// goroutine.
func (p *progress) report(done, total int64, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.SetTotal(total).SetCurrent(done).Set("note", note)
		return
	}
	// Not a terminal, such as a log file: few lines, each with a time.
	if now := time.Now(); now.Sub(p.last) >= 30*time.Second {
		p.last = now
		fmt.Fprintf(p.w, "%s %d/%d after %s %s\n", p.what, done, total, now.Sub(p.started).Round(time.Second), note)
	}
}

// close removes the bar.
func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}

// listener is the pipeline.Listener of this program: it shows the progress of each
// step on stderr and, unless quiet, its outcome on stdout.
type listener struct {
	*command
	quiet bool       // do not print outcomes and failures
	mu    sync.Mutex // guards show, since Progress is called from several goroutines
	step  string     // title of the progress
	show  *progress  // of the current step; nil until its first report
}

// Begin implements pipeline.Listener. It only sets the title, which the first
// Progress shows: steps that are done already report none.
func (t *listener) Begin(id string, i, n int) { t.step = fmt.Sprintf("[%d/%d] %s", i, n, id) }

// Progress implements pipeline.Listener.
func (t *listener) Progress(done, total int64, note string) {
	t.mu.Lock()
	if t.show == nil {
		t.show = newProgress(t.stderr, t.step)
	}
	show := t.show
	t.mu.Unlock()
	show.report(done, total, note)
}

// endProgress closes the bar, if any, so that the next line does not overwrite it.
func (t *listener) endProgress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.show != nil {
		t.show.close()
		t.show = nil
	}
}

// Note implements pipeline.Listener.
func (t *listener) Note(text string) {
	t.endProgress()
	fmt.Fprintln(t.stderr, text)
}

// End implements pipeline.Listener.
func (t *listener) End(id, outcome string) {
	if t.endProgress(); !t.quiet {
		t.printStep(id, outcome)
	}
}

// Failed implements pipeline.Listener. A quiet caller lists failures itself at the
// end.
func (t *listener) Failed(id string, err error) {
	if t.endProgress(); !t.quiet {
		fmt.Fprintf(t.stderr, "%s failed: %v\n", id, err)
	}
}
