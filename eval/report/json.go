package report

import (
	"encoding/json"
	"math"
)

// JSON is report.json: what other programs read. Rates and differences are in
// percent.
type JSON struct {
	Cells  []JSONCell `json:"cells"`
	Paired []JSONPair `json:"paired"`
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
}

// JSONPair is A minus B over paired episodes; the tier MeanTier is the average
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

// JSON lists every cell and every paired row of the report.
func (r *Report) JSON() JSON {
	out := JSON{Cells: []JSONCell{}, Paired: []JSONPair{}}
	for i := range r.Blocks {
		b := &r.Blocks[i]
		for _, a := range b.Arms {
			for _, t := range b.Tiers {
				if s, ok := a.Scores[t.Name]; ok {
					out.Cells = append(out.Cells, JSONCell{b.Task, a.Method, a.Seed, b.Solver, t.Name, s.Sets, s.N, value(s.Mean), value(s.SD)})
				}
			}
		}
		for _, p := range b.Pairs {
			for _, d := range p.Rows {
				out.Paired = append(out.Paired, JSONPair{p.A, p.B, b.Task, b.Solver, d.Tier, d.N, value(d.Diff), value(d.Lo), value(d.Hi), value(d.P)})
			}
		}
	}
	return out
}
