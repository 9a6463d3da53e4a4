package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/infer"
)

// Formats lists what a report is written as unless told.
func Formats() []string { return []string{"html", "md", "csv", "json", "tex"} }

// Episodes is the format, and the file, of a line an episode. It is written where it is
// asked for: a whole benchmark has millions.
const Episodes = "episodes.csv"

// AllFormats lists what a report can be written as.
func AllFormats() []string { return append(Formats(), Episodes) }

// File is a rendered report.
type File struct {
	Name  string
	Bytes []byte
}

// Render draws the report in the named formats, in the order of AllFormats.
func (r *Report) Render(formats []string) ([]File, error) {
	for _, f := range formats {
		if !slices.Contains(AllFormats(), f) {
			return nil, fmt.Errorf("report: unknown format %q (hint: one of %s)", f, strings.Join(AllFormats(), ", "))
		}
	}
	sections := r.Sections()
	var out []File
	for _, f := range AllFormats() {
		if !slices.Contains(formats, f) {
			continue
		}
		files, err := r.render(f, sections)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if v := safefile.Visible(string(file.Bytes)); len(v) != len(file.Bytes) {
				file.Bytes = []byte(v)
			}
			out = append(out, file)
		}
	}
	return out, nil
}

func (r *Report) render(format string, sections []Section) ([]File, error) {
	file := File{Name: "report." + format}
	var err error
	switch format {
	case "html":
		file.Bytes, err = html(r.Protocol, r.verdicts(), sections)
	case "md":
		file.Bytes = markdown(sections)
	case "tex":
		file.Bytes = latex(sections)
	case "json":
		file.Bytes, err = json.MarshalIndent(r.JSON(), "", " ")
		file.Bytes = append(file.Bytes, '\n')
	case "csv":
		file.Bytes = csvBytes(r.successRows())
		return []File{file, {"report-paired.csv", csvBytes(r.pairRows())}, {"report-sections.csv", csvBytes(sectionRows(sections))}}, nil
	case Episodes:
		file = File{Episodes, csvBytes(r.episodeRows())}
	}
	return []File{file}, err
}

// marks is what each file of a report holds near its beginning, and hardly any
// other file of that name does.
var marks = map[string]string{
	"report.html":         "scalewm · paired evaluation",
	"report.md":           "# Planning with latent world models",
	"report.tex":          "% Needs \\usepackage{booktabs}.",
	"report.json":         "{\n \"cells\": [",
	"report.csv":          "task,solver,method,",
	"report-paired.csv":   "task,solver,a,b,",
	"report-sections.csv": "section,part,kind,",
	Episodes:              "task,solver,method,",
}

// Ours says whether what is in a folder under the name of a report's file is a
// report's, or nothing: what may be replaced.
func Ours(dir, name string) (bool, error) {
	return safefile.Marked(filepath.Join(dir, name), []byte(marks[name]))
}

// Foreign names a file of a folder that stands where a report's file is to be and is none, "" where there is none.
func Foreign(dir string) string {
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		if ours, err := Ours(dir, name); err != nil || !ours {
			return name
		}
	}
	return ""
}

// JSON is report.json: what other programs read. Rates and differences are in
// percent.
type JSON struct {
	Cells  []JSONCell  `json:"cells"`
	Paired []JSONPair  `json:"paired"`
	Claims []JSONClaim `json:"claims"`
}

// JSONCell is the success of an arm at a tier.
type JSONCell struct {
	Task   string `json:"task"`
	Method string `json:"method"`
	Seed   int    `json:"seed"`
	Solver string `json:"solver"`
	Tier   string `json:"tier"`
	Sets   int    `json:"sets"`
	N      int    `json:"n"` // episodes over all sets
	Mean   value  `json:"mean"`
	SD     value  `json:"sd"` // over sets, ddof 1; null with one set
	// Settings are those of the block where several stand apart, and Variant what
	// makes the arm one of its method's, as in "half" or "w=0.3"; else "".
	Settings string `json:"settings,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Note     string `json:"note,omitempty"` // on the costs that chose its plans
}

// JSONPair is A minus B over paired episodes; the tier "mean" is the average
// over tiers.
type JSONPair struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Task   string `json:"task"`
	Solver string `json:"solver"`
	Tier   string `json:"tier"`
	N      int    `json:"n"`
	Diff   value  `json:"diff"`
	Lo     value  `json:"lo"`
	Hi     value  `json:"hi"`
	P      value  `json:"p"`

	Settings string `json:"settings,omitempty"`
}

// JSONClaim is a claim of the paper, what the folder says of it, and the number that the page
// shows beside it, in the unit of the page, with its interval; no number has no N.
type JSONClaim struct {
	ID      string        `json:"id"` // as in claims.json
	Claim   string        `json:"claim"`
	Verdict infer.Verdict `json:"verdict"` // holds, fails or undecided
	Number  string        `json:"number"`  // which one, as in "Two-Room, iCEM"
	Value   value         `json:"value"`
	Lo      value         `json:"lo"`
	Hi      value         `json:"hi"`
	N       string        `json:"n"`       // what it is taken over, as in "300 episodes"
	Section string        `json:"section"` // of the page that has it
}

// value is a number that JSON writes as null where it is NaN.
type value float64

// MarshalJSON writes NaN as null.
func (v value) MarshalJSON() ([]byte, error) {
	if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// JSON lists every cell, every paired row and every claim of the report.
func (r *Report) JSON() JSON {
	out := JSON{Cells: []JSONCell{}, Paired: []JSONPair{}, Claims: []JSONClaim{}}
	r.eachScore(func(b *Block, a Arm, t Tier, s Score) {
		out.Cells = append(out.Cells, JSONCell{b.Task, a.Method, a.Seed, b.Solver, t.Name, len(s.BySet), s.N, value(s.Mean), value(s.SD), b.Settings, a.variant(), s.Note()})
	})
	r.eachPair(func(b *Block, c *infer.Comparison, d infer.Difference) {
		out.Paired = append(out.Paired, JSONPair{c.A, c.B, b.Task, b.Solver, d.Tier, d.N, value(d.Diff), value(d.Lo), value(d.Hi), value(d.P), b.Settings})
	})
	for _, f := range r.Findings {
		c := JSONClaim{ID: f.ID, Claim: f.Claim.Claim, Verdict: f.Verdict, Value: value(math.NaN()), Lo: value(math.NaN()), Hi: value(math.NaN())}
		if here := f.here(); len(here) > 0 {
			p := here[0]
			c.Number, c.Value, c.Lo, c.Hi, c.N, c.Section = p.name, value(p.Value), value(p.Lo), value(p.Hi), p.n, p.at
		}
		out.Claims = append(out.Claims, c)
	}
	return out
}

// eachScore calls f for every arm and tier that has cells.
func (r *Report) eachScore(f func(*Block, Arm, Tier, Score)) {
	for i := range r.Blocks {
		b := r.Blocks[i]
		for _, a := range b.Arms {
			for _, t := range b.Tiers {
				if s, ok := a.Scores[t.Name]; ok {
					f(b, a, t, s)
				}
			}
		}
	}
}

// eachPair calls f for every paired row.
func (r *Report) eachPair(f func(*Block, *infer.Comparison, infer.Difference)) {
	for i := range r.Blocks {
		for _, c := range r.Blocks[i].Pairs {
			for _, d := range c.All() {
				f(r.Blocks[i], c, d)
			}
		}
	}
}
