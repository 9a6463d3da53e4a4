package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"scalewm/envs"
)

func init() {
	register(verb{name: "tasks", summary: "the tasks: spaces, task state q, success rule, source",
		example: "scalewm tasks\nscalewm tasks --json", run: runTasks})
}

// taskInfo is what a task says of itself, as JSON.
type taskInfo struct {
	Name     string       `json:"name"`
	ID       string       `json:"id"` // of the original environment
	Title    string       `json:"title"`
	Action   actionInfo   `json:"action"`
	Columns  []columnInfo `json:"columns"`
	Q        []qInfo      `json:"q"` // the first is the default
	Switches []switchInfo `json:"switches"`
	Factors  []factorInfo `json:"factors"`
	Policies []string     `json:"policies"` // the first is the default
	MaxSteps int          `json:"max_steps"`
	Success  string       `json:"success"`
	Source   string       `json:"source"`
}

type actionInfo struct {
	Width int       `json:"width"`
	DType string    `json:"dtype"`
	Low   []float64 `json:"low"`
	High  []float64 `json:"high"`
}

type columnInfo struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Width int    `json:"width"`
	Doc   string `json:"doc"`
}

type qInfo struct {
	Name  string   `json:"name"`
	Parts []string `json:"parts"`
}

type switchInfo struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // the first is the default
	Doc    string   `json:"doc"`
}

// factorInfo is what may vary; --switch of collect fixes it or has it drawn.
type factorInfo struct {
	Name    string       `json:"name"`
	DType   string       `json:"dtype"`
	Low     float64      `json:"low"`
	High    float64      `json:"high"`
	Ranges  [][2]float64 `json:"ranges,omitempty"` // of each number where they differ
	Init    []float64    `json:"init"`
	Sampled bool         `json:"sampled"` // every reset draws it unless it is fixed
	Doc     string       `json:"doc"`
}

func runTasks(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	infos := []taskInfo{}
	for _, n := range envs.Names() {
		t, err := envs.Lookup(n)
		if err != nil {
			return err
		}
		infos = append(infos, describeTask(t.Spec))
	}
	if *asJSON {
		return c.printJSON(map[string]any{"tasks": infos})
	}
	for i, t := range infos {
		if i > 0 {
			fmt.Fprintln(c.stdout)
		}
		printTask(c.stdout, t)
	}
	return nil
}

func describeTask(s *envs.Spec) taskInfo {
	t := taskInfo{Name: s.Name, ID: s.ID, Title: s.Title, Policies: s.Policies, MaxSteps: s.MaxSteps,
		Action:  actionInfo{s.ActionDim, s.ActionDType, s.ActionLow, s.ActionHigh},
		Success: s.Success, Source: s.Source, Columns: []columnInfo{}, Q: []qInfo{}, Switches: []switchInfo{}, Factors: []factorInfo{}}
	for _, c := range s.Columns {
		t.Columns = append(t.Columns, columnInfo{c.Name, c.DType, c.Width, c.Doc})
	}
	for _, q := range s.Qs {
		t.Q = append(t.Q, qInfo{q.Name, q.Parts})
	}
	for _, sw := range s.Switches {
		t.Switches = append(t.Switches, switchInfo{sw.Name, sw.Values, sw.Doc})
	}
	for _, f := range s.Factors {
		t.Factors = append(t.Factors, factorInfo(f))
	}
	return t
}

func printTask(w io.Writer, t taskInfo) {
	fmt.Fprintf(w, "%s: %s (%s)\n", t.Name, t.Title, t.ID)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, text string) { fmt.Fprintf(tab, "  %s\t%s\n", what, text) }
	row("action", fmt.Sprintf("%d x %s from %v to %v, at most %d steps an episode", t.Action.Width, t.Action.DType, t.Action.Low, t.Action.High, t.MaxSteps))
	for _, q := range t.Q {
		row("q "+q.Name, strings.Join(q.Parts, ", "))
	}
	row("success", t.Success)
	row("policies", strings.Join(t.Policies, ", "))
	for _, s := range t.Switches {
		row("switch "+s.Name, strings.Join(s.Values, " | ")+": "+s.Doc)
	}
	for _, f := range t.Factors {
		row("factor "+f.Name, fmt.Sprintf("%v, from %g to %g: %s", f.Init, f.Low, f.High, f.Doc))
	}
	row("source", t.Source)
	tab.Flush()
	fmt.Fprint(w, "  columns\n")
	for _, c := range t.Columns {
		fmt.Fprintf(tab, "    %s\t%s x %d\t%s\n", c.Name, c.DType, c.Width, c.Doc)
	}
	tab.Flush()
}
