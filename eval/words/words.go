// Package words formats names, numbers and lists for people, so that notes, reports and the
// terminal write them in the same way: "83.3 ± 8.2", "+9.1 to +18.6", "SCALE − LeWM".
// Rates and differences are in percent and percentage points. It computes nothing.
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

// None is written instead of an undefined number.
const None = "–"

// Count writes a number of things: "1 cell", "6 cells".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Points writes a rate or a difference with one decimal, and never "-0.0".
func Points(x float64) string {
	if math.IsNaN(x) {
		return None
	}
	if s := strconv.FormatFloat(x, 'f', 1, 64); s != "-0.0" {
		return s
	}
	return "0.0"
}

// Decimal writes a number with a number of decimals and a typographic minus.
func Decimal(x float64, digits int) string {
	return strings.Replace(strconv.FormatFloat(x, 'f', digits, 64), "-", "−", 1)
}

// Signed writes Points with a sign and a typographic minus. Zero has no sign.
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

// Spread writes a mean and its standard deviation, "83.3 ± 8.2", or only the mean if the
// deviation is NaN.
func Spread(mean, sd float64) string {
	if math.IsNaN(sd) {
		return Points(mean)
	}
	return Points(mean) + " ± " + Points(sd)
}

// P writes a p-value: "0.031", "< 0.001".
func P(p float64) string {
	switch {
	case math.IsNaN(p):
		return None
	case p < 0.001:
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// Equals writes a p-value after "p": "= 0.031", "< 0.001".
func Equals(p float64) string {
	if math.IsNaN(p) || p < 0.001 {
		return P(p)
	}
	return "= " + P(p)
}

// Interval writes an interval of a difference: "+9.1 to +18.6".
func Interval(lo, hi float64) string { return Signed(lo) + " to " + Signed(hi) }

// Thousands writes a number with its digits grouped: "9,000".
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Duration writes seconds in seconds, minutes or hours, with one decimal.
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

// When writes a period to the minute in UTC, given its ends in RFC 3339. Other texts are
// written unchanged.
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

// Arm writes an arm's name with the title of its method: "SCALE@half".
func Arm(a results.Arm) string {
	if title := a.Entry().Title; title != "" {
		a.Method = title
	}
	return a.String()
}

// Minus writes the difference of two arms: "SCALE − LeWM".
func Minus(a, b results.Arm) string { return Arm(a) + " − " + Arm(b) }

// Task returns a task's title, or its name if this program does not have the task.
func Task(task string) string {
	if t, err := envs.Lookup(task); err == nil {
		return t.Spec.Title
	}
	return task
}

// Solver returns the display name of a solver: "iCEM".
func Solver(name string) string {
	return cmp.Or(map[string]string{results.CEM: "CEM", results.ICEM: "iCEM", results.MPPI: "MPPI", results.StockMPPI: "MPPI at stock temperature"}[name], name)
}

// Solvers lists the display names of several solvers, separated by commas.
func Solvers(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, Solver(n))
	}
	return strings.Join(out, ", ")
}
