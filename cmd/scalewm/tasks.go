package main

import (
	"context"
	"fmt"
	"strings"

	"scalewm/envs"
)

func init() {
	register(verb{name: "tasks", summary: "the tasks: spaces, task state q, success rule, source",
		example: "scalewm tasks", run: runTasks})
}

func runTasks(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	type task struct {
		Name, ID, Title string
		ActionDim       int
		Q               map[string][]string
		Columns         []string
		Switches        map[string][]string
		Policies        []string
		Success, Source string
	}
	var ts []task
	for _, n := range envs.Names() {
		t, err := envs.Lookup(n)
		if err != nil {
			return err
		}
		s := t.Spec
		o := task{Name: s.Name, ID: s.ID, Title: s.Title, ActionDim: s.ActionDim, Q: map[string][]string{},
			Switches: map[string][]string{}, Policies: s.Policies, Success: s.Success, Source: s.Source}
		for _, q := range s.Qs {
			o.Q[q.Name] = q.Parts
		}
		for _, col := range s.Columns {
			o.Columns = append(o.Columns, col.Name)
		}
		for _, sw := range s.Switches {
			o.Switches[sw.Name] = sw.Values
		}
		ts = append(ts, o)
	}
	if *asJSON {
		return c.printJSON(map[string]any{"tasks": ts})
	}
	for _, t := range ts {
		fmt.Fprintf(c.stdout, "%-10s %s (%s)\n  actions   %d\n", t.Name, t.Title, t.ID, t.ActionDim)
		fmt.Fprintf(c.stdout, "  columns   %s\n  policies  %s\n", strings.Join(t.Columns, ", "), strings.Join(t.Policies, ", "))
		for name, parts := range t.Q {
			fmt.Fprintf(c.stdout, "  q %-7s %s\n", name, strings.Join(parts, ", "))
		}
		fmt.Fprintf(c.stdout, "  success   %s\n  source    %s\n", t.Success, t.Source)
	}
	return nil
}
