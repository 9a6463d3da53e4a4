package report

// How names, numbers and lists are written for people.

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"scalewm/envs"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
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

// decimal writes a number with a typographic minus.
func decimal(x float64, digits int) string {
	return strings.Replace(strconv.FormatFloat(x, 'f', digits, 64), "-", "−", 1)
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
	if len(s.BySet) == 0 {
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

// listing joins words with commas and a final "and".
func listing(w []string) string {
	if len(w) < 2 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:len(w)-1], ", ") + " and " + w[len(w)-1]
}

// when shows a stretch of time to the minute. Times that are not RFC 3339 are
// shown as they are.
func when(first, last string) string {
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

// methodName is a method's title; of those that only the paper has, the paper's.
func methodName(m string) string {
	if title := published.Titles[m]; title != "" {
		return title
	}
	return model.MethodOf(m).Title
}

// armTitle is a method's title with what makes the arm a variant of it.
func armTitle(arm string) string {
	method, variant, is := strings.Cut(arm, "@")
	if is {
		variant = "@" + variant
	}
	return methodName(method) + variant
}

// variant is what makes an arm a variant of its method, "" for the plain one.
func (a Arm) variant() string {
	_, variant, _ := strings.Cut(a.Name, "@")
	return variant
}

// taskName is a task's title, or its name where this program does not have the task.
func taskName(task string) string {
	if t, err := envs.Lookup(task); err == nil {
		return t.Spec.Title
	}
	return task
}

// compareTasks orders tasks as the paper does; others come last, by alphabet.
func compareTasks(a, b string) int { return cmp.Or(taskIndex(a)-taskIndex(b), strings.Compare(a, b)) }

func taskIndex(task string) int {
	if i := slices.IndexFunc(published.Tables, func(t PaperTable) bool { return t.Task == task }); i >= 0 {
		return i
	}
	return len(published.Tables)
}

var solverNames = map[string]string{results.CEM: "CEM", results.ICEM: "iCEM", results.MPPI: "MPPI", infer.StockMPPI: "MPPI at stock temperature"}

// title names a block.
func (b *Block) title() string {
	t := taskName(b.Task) + ", " + cmp.Or(solverNames[b.Solver], b.Solver)
	if b.Settings != "" {
		t += ", " + b.Settings
	}
	return t
}

// anchor is the block's address on the page.
func (b *Block) anchor() string {
	return strings.Trim(notInAnchors.ReplaceAllString(b.Task+"-"+b.Solver+"-"+b.Settings, "-"), "-")
}

var notInAnchors = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// label names an arm; the seed is said only where a block has several.
func (b *Block) label(a Arm) string {
	for _, o := range b.Arms {
		if o.Name == a.Name && o.Seed != a.Seed {
			return armTitle(a.Name) + " seed " + itoa(a.Seed)
		}
	}
	return armTitle(a.Name)
}

// minus reads "SCALE − LeWM".
func minus(a, b string) string { return armTitle(a) + " − " + armTitle(b) }
