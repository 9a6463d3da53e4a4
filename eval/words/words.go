// Package words formats names, numbers and lists for readers. Notes, reports and the terminal
// use it, so that a value looks the same everywhere. Formats for other programs (JSON, CSV)
// are not here. The package computes nothing.
//
// Rates are in percent and differences in points, both with one decimal. Minus signs of
// differences are typographic (U+2212), in the width of a plus.
package words

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"scalewm/envs"
	"scalewm/eval/results"
)

// None is shown in place of a number that does not exist.
const None = "–"

// Count returns a number of things: "1 cell", "6 cells".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Points formats a rate or a difference with one decimal. Rounding never gives "-0.0".
func Points(x float64) string {
	if math.IsNaN(x) {
		return None
	}
	return rounded(x, 1)
}

// rounded formats a number. A zero has no sign.
func rounded(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// Decimal formats a number with a typographic minus. Rounding never gives "−0.00".
func Decimal(x float64, digits int) string {
	return strings.Replace(rounded(x, digits), "-", "−", 1)
}

// Signed formats a difference like Points, with its sign. The minus is typographic, and
// zero has no sign.
func Signed(x float64) string {
	s := Points(x)
	switch {
	case math.IsNaN(x) || s == "0.0":
		return s
	case s[0] == '-':
		return "−" + s[1:]
	}
	return "+" + s
}

// Spread formats a mean and its standard deviation, "83.3 ± 8.2". A deviation of NaN is
// left out.
func Spread(mean, sd float64) string {
	if math.IsNaN(sd) {
		return Points(mean)
	}
	return Points(mean) + " ± " + Points(sd)
}

// P formats a p-value: "0.031", "< 0.001".
func P(p float64) string {
	switch {
	case math.IsNaN(p):
		return None
	case p < 0.001:
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// Equals formats a p-value for use after "p": "= 0.031", "< 0.001".
func Equals(p float64) string {
	if math.IsNaN(p) || p < 0.001 {
		return P(p)
	}
	return "= " + P(p)
}

// Interval formats the interval of a difference: "+9.1 to +18.6".
func Interval(lo, hi float64) string { return Signed(lo) + " to " + Signed(hi) }

// Thousands formats a non-negative number with groups of digits: 9,000.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Duration formats seconds in a suitable unit: s, min or h.
func Duration(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// Listing joins words with commas and a final "and".
func Listing(w []string) string {
	if len(w) < 2 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:len(w)-1], ", ") + " and " + w[len(w)-1]
}

// When formats a period of time in UTC, to the minute, without repeating the day. Times
// that are not in RFC 3339 are returned unchanged.
func When(first, last string) string {
	a, errA := time.Parse(time.RFC3339, first)
	b, errB := time.Parse(time.RFC3339, last)
	if errA != nil || errB != nil {
		return first + " to " + last
	}
	a, b = a.UTC(), b.UTC()
	switch day := "2006-01-02 15:04"; {
	case a.Format(day) == b.Format(day):
		return a.Format(day) + " UTC"
	case a.Format(time.DateOnly) == b.Format(time.DateOnly):
		return a.Format(day) + " to " + b.Format("15:04") + " UTC"
	default:
		return a.Format(day) + " to " + b.Format(day) + " UTC"
	}
}

// Arm returns an arm's name for readers: its wrappers, the title of its method, and its
// variants.
func Arm(a results.Arm) string {
	if title := a.Entry().Title; title != "" {
		a.Method = title
	}
	return a.String()
}

// Minus returns the name of a difference of two arms, "SCALE − LeWM".
func Minus(a, b results.Arm) string { return Arm(a) + " − " + Arm(b) }

// Task returns a task's title, or its name if this program does not have the task.
func Task(task string) string {
	if t, err := envs.Lookup(task); err == nil {
		return t.Spec.Title
	}
	return task
}

// Solver returns a solver's name for readers. The argument is the name of a table.
func Solver(name string) string {
	return cmp.Or(map[string]string{results.CEM: "CEM", results.ICEM: "iCEM", results.MPPI: "MPPI", results.StockMPPI: "MPPI at stock temperature"}[name], name)
}

// Solvers returns the names of several solvers, separated by commas.
func Solvers(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, Solver(n))
	}
	return strings.Join(out, ", ")
}
