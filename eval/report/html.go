package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/style.css
var pageCSS string

//go:embed page/sort.js
var pageJS string

// page is what the template shows: only what it cannot compute from a Report.
type page struct {
	*Report
	CSS         template.CSS
	JS          template.JS
	Facts       []fact
	Figures     []tile
	Overview    template.HTML
	OverviewTab template.HTML
	Lines       template.HTML // over sets
	Aggregates  template.HTML
	Sections    []section
	Caveat      string
	Legend      []legend
}

// tile is a figure in large type.
type tile struct{ Value, Name, Note, Class string }

// legend explains a method's colour.
type legend struct{ Class, Name string }

// section is a task with its solvers.
type section struct {
	Task, ID string
	Blocks   []blockView
	Training []template.HTML
	Trained  []legend // the methods of the training curves
	Clips    []clipView
}

// blockView is a block with its figures and tables drawn.
type blockView struct {
	Title, ID             string
	Success, Pairs, Paper template.HTML
	Compute, Forest       template.HTML
	Discord, Sets, Steps  []template.HTML
	TierNotes             []string
}

// clipView is an episode to watch.
type clipView struct {
	Name, Tier, Class string
	Src               template.URL
}

// html renders report.html: one file that needs nothing else.
func (r *Report) html() ([]byte, error) {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("report: the page's template: %w", err)
	}
	p := page{Report: r, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Facts: r.facts(), Figures: r.tiles(), Caveat: caveat, Legend: r.legend()}
	if len(r.Blocks) > 1 {
		p.Overview, p.OverviewTab = r.overviewForest(), htmlTable(r.overviewTable())
	}
	if t, ok := r.lineTable(); ok {
		p.Lines = htmlTable(t)
	}
	if t, ok := r.aggregateTable(); ok {
		p.Aggregates = htmlTable(t)
	}
	for _, task := range r.tasks() {
		p.Sections = append(p.Sections, r.section(task))
	}
	var w bytes.Buffer
	if err := t.Execute(&w, p); err != nil {
		return nil, fmt.Errorf("report: drawing the page: %w", err)
	}
	return w.Bytes(), nil
}

// section draws a task.
func (r *Report) section(task string) section {
	s := section{Task: taskName(task), ID: task, Training: r.trainingFigures(task)}
	for i := range r.Blocks {
		if b := &r.Blocks[i]; b.Task == task {
			s.Blocks = append(s.Blocks, b.view())
		}
	}
	for _, l := range r.legend() {
		if slices.ContainsFunc(r.Training, func(t Training) bool { return t.Task == task && "m-"+class(t.Method) == l.Class }) {
			s.Trained = append(s.Trained, l)
		}
	}
	for _, c := range r.Clips {
		if c.Task == task || c.Task == "" {
			s.Clips = append(s.Clips, clipView{methodName(c.Method), c.Tier, "m-" + class(c.Method),
				template.URL("data:image/gif;base64," + base64.StdEncoding.EncodeToString(c.GIF))})
		}
	}
	return s
}

func (b *Block) view() blockView {
	v := blockView{Title: b.title(), ID: b.Task + "-" + b.Solver, Success: htmlTable(b.successTable()), Compute: computeFigure(b),
		Forest: b.forest(), Discord: b.discordFigures()}
	if len(b.Pairs) > 0 {
		v.Pairs = htmlTable(b.pairTable())
	}
	if t, ok := b.paperTable(); ok {
		v.Paper = htmlTable(t)
	}
	for _, t := range b.Tiers {
		v.TierNotes = append(v.TierNotes, t.describe())
		v.Sets = append(v.Sets, setsFigure(b, t))
		v.Steps = append(v.Steps, stepsFigure(b, t))
	}
	return v
}

// tiles are the numbers a reader takes away.
func (r *Report) tiles() (out []tile) {
	if len(r.Blocks) > 1 {
		return nil
	}
	b := &r.Blocks[0]
	if p, d, ok := b.main(); ok {
		out = append(out, tile{signed(d.Diff), p.name() + ", points", "95 % interval " + interval(d.Lo, d.Hi), "m-" + class(p.A)})
	}
	for _, m := range []string{scale, lewm, aux, random} {
		a, ok := b.first(m)
		if !ok {
			continue
		}
		top := b.scores(a)[0]
		if top.Sets == 0 {
			continue
		}
		note := "at " + top.Tier + ", " + points(a.Mean.Mean) + " over all tiers"
		if m == random {
			note = "the floor: uniform random actions"
		}
		out = append(out, tile{points(top.Mean), methodName(m) + ", % solved", note, "m-" + class(m)})
	}
	return out
}

// legend lists the methods of the report in order.
func (r *Report) legend() (out []legend) {
	for _, m := range methodOrder {
		for i := range r.Blocks {
			if _, ok := r.Blocks[i].first(m); ok {
				out = append(out, legend{"m-" + class(m), methodName(m)})
				break
			}
		}
	}
	return out
}

// htmlTable draws a table whose columns sort on a click.
func htmlTable(t table) template.HTML {
	var w strings.Builder
	w.WriteString(`<figure class="table"><div class="scroll"><table class="sortable"><thead><tr>`)
	for i, h := range t.head {
		kind := ""
		if len(t.rows) > 0 && t.rows[0][i].left {
			kind = ` class="left"`
		}
		fmt.Fprintf(&w, `<th scope="col"%s><button type="button">%s</button></th>`, kind, template.HTMLEscapeString(h))
	}
	w.WriteString("</tr></thead><tbody>")
	for _, row := range t.rows {
		w.WriteString("<tr>")
		for i, e := range row {
			writeEntry(&w, e, i == 0)
		}
		w.WriteString("</tr>")
	}
	fmt.Fprintf(&w, `</tbody></table></div><figcaption>%s</figcaption></figure>`, template.HTMLEscapeString(t.caption))
	return template.HTML(w.String())
}

// writeEntry draws one field; the spread after ± is set smaller.
func writeEntry(w *strings.Builder, e entry, first bool) {
	tag, attr := "td", ""
	if first {
		tag, attr = "th", ` scope="row"`
	}
	var classes []string
	if e.left {
		classes = append(classes, "left")
	}
	if e.bold {
		classes = append(classes, "best")
	}
	if e.muted {
		classes = append(classes, "muted")
	}
	if len(classes) > 0 {
		attr += ` class="` + strings.Join(classes, " ") + `"`
	}
	if !math.IsNaN(e.key) {
		attr += ` data-key="` + strconv.FormatFloat(e.key, 'g', 8, 64) + `"`
	}
	text := template.HTMLEscapeString(e.text)
	if mean, sd, ok := strings.Cut(text, " ± "); ok {
		text = mean + ` <span class="sd">± ` + sd + `</span>`
	}
	fmt.Fprintf(w, "<%s%s>%s</%s>", tag, attr, text, tag)
}
