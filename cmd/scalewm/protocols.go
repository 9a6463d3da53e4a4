package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"scalewm/eval/protocol"
)

func init() {
	register(verb{name: "protocols", args: "[NAME]", summary: "list the evaluation protocols, or print one with the source of each value",
		example: "scalewm protocols\nscalewm protocols strict\nscalewm protocols clear-strict-0.8 > mine.toml", run: runProtocols})
}

// runProtocols lists the built-in protocols, or prints one as TOML that --protocol
// accepts. The comment behind a value says where it comes from.
func runProtocols(_ context.Context, c *command, args []string) error {
	args, err := c.parse(args, 0, 1)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		d, err := protocol.Load(args[0])
		if err != nil {
			return usagef("%v", err)
		}
		fmt.Fprint(c.stdout, d.TOML())
		return nil
	}
	tab := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "name\tgoal\tbudget\tblocks\tsets\ttier\tsummary")
	for _, name := range protocol.Names() {
		d, err := protocol.Load(name)
		if err != nil {
			return err
		}
		sets := "any"
		if d.Usual.Sets != nil {
			sets = fmt.Sprintf("%s x %d", strings.Join(d.Usual.Sets, ","), d.Usual.Episodes)
		}
		fmt.Fprintf(tab, "%s\t%d\t%d\t%d of %d\t%s\t%s\t%s\n", name, d.GoalOffset, d.Budget, d.Executed(), d.Horizon, sets, cmp.Or(d.Usual.Tier(), "any"), d.Title)
	}
	return tab.Flush()
}
