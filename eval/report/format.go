package report

import (
	"fmt"
	"math"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// count says a number of things: "1 cell", "6 cells".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return itoa(n) + " " + thing + "s"
}

// points shows a rate or a difference with one decimal, "–" for NaN.
func points(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	if s := strconv.FormatFloat(x, 'f', 1, 64); s != "-0.0" {
		return s
	}
	return "0.0"
}

// signed is points with a sign, the minus typographic.
func signed(x float64) string {
	s := points(x)
	switch {
	case math.IsNaN(x) || s == "0.0":
		return s
	case s[0] == '-':
		return "−" + s[1:]
	}
	return "+" + s
}

// pm shows mean and spread, "83.3 ± 8.2"; the spread is left out where there is none.
func pm(s Score) string {
	if s.Sets == 0 {
		return "–"
	}
	if math.IsNaN(s.SD) {
		return points(s.Mean)
	}
	return points(s.Mean) + " ± " + points(s.SD)
}

// pvalue shows a probability: "0.031", "< 0.001".
func pvalue(p float64) string {
	switch {
	case math.IsNaN(p):
		return "–"
	case p < 0.001:
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// equals is a probability after "p": "= 0.031", "< 0.001".
func equals(p float64) string {
	if math.IsNaN(p) || p < 0.001 {
		return pvalue(p)
	}
	return "= " + pvalue(p)
}

// interval shows "+9.1 to +18.6".
func interval(lo, hi float64) string { return signed(lo) + " to " + signed(hi) }

// thousands groups digits: 9,000.
func thousands(n int) string {
	s := itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// duration shows seconds in the unit a reader wants.
func duration(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}
