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

func runTasks(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	infos := []envs.Description{}
	for _, n := range envs.Names() {
		t, err := envs.Lookup(n)
		if err != nil {
			return err
		}
		infos = append(infos, t.Spec.Describe())
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

func printTask(w io.Writer, t envs.Description) {
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
