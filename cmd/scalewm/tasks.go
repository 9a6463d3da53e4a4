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
	register(verb{name: "tasks", summary: "list the tasks: spaces, task state q, success rule, source",
		example: "scalewm tasks\nscalewm tasks --json", run: runTasks})
}

// runTasks lists the registered tasks with everything that a user of their data sets
// needs to know, as text or as one JSON object.
func runTasks(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print the result as one JSON object")
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
		if i > 0 { // an empty line between tasks
			fmt.Fprintln(c.stdout)
		}
		printTask(c.stdout, t)
	}
	return nil
}

// printTask prints everything that a task declares about itself. Columns of data sets
// are a table of their own, because they have other fields.
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
