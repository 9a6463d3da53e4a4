package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval/words"
)

func init() {
	register(verb{name: "sources", args: "[TASK]", summary: "list published data sets and checkpoints, and the commands that use them",
		example: "scalewm sources\nscalewm sources tworoom --json", run: runSources})
}

// sourcesJSON is the table of published files (docs/sources.md#published-files).
//
//go:embed sources.json
var sourcesJSON []byte

// source is a published data set or checkpoint. Fields without a value are unknown.
type source struct {
	Kind     string       `json:"kind"` // data, weights or backbone
	Tasks    []string     `json:"tasks"`
	What     string       `json:"what"`
	Where    string       `json:"where"`
	Revision string       `json:"revision,omitempty"`
	Files    []sourceFile `json:"files"`
	Licence  string       `json:"licence"`
	Note     string       `json:"note,omitempty"`
	Use      string       `json:"use"` // a command line
	// Episodes and rows of a data set.
	Episodes int `json:"episodes,omitempty"`
	Rows     int `json:"rows,omitempty"`
}

type sourceFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// sourcesOf returns the published files that a task can use, or all if task is "".
func sourcesOf(task string) (out []source, err error) {
	if err := json.Unmarshal(sourcesJSON, &out); err != nil {
		return nil, fmt.Errorf("reading the table of published files: %w", err)
	}
	out = slices.DeleteFunc(out, func(s source) bool { return task != "" && !slices.Contains(s.Tasks, task) })
	for i, s := range out {
		if s.Kind == "data" {
			p, _ := dataset.PublishedSet(s.Tasks[0])
			out[i].Episodes, out[i].Rows = p.Episodes, p.Rows
		}
	}
	return out, nil
}

// runSources lists published data sets and checkpoints. It fetches nothing.
func runSources(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	pos, err := c.parse(args, 0, 1)
	if err != nil {
		return err
	}
	task := strings.Join(pos, "")
	if task != "" && !slices.Contains(envs.Names(), task) {
		return usagef("sources: no task named %q%s", task, words.Nearest(task, envs.Names()))
	}
	all, err := sourcesOf(task)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(map[string]any{"sources": all})
	}
	for _, s := range all {
		s.print(c.stdout)
	}
	return nil
}

func (s source) print(w io.Writer) {
	row := func(name, text string) { fmt.Fprintf(w, "  %-9s %s\n", name, text) }
	fmt.Fprintf(w, "%s for %s: %s\n", s.Kind, strings.Join(s.Tasks, ", "), s.What)
	row("where", s.Where)
	if s.Revision != "" {
		row("revision", s.Revision)
	}
	for _, f := range s.Files {
		size := "size unknown"
		if f.Bytes > 0 {
			size = hdf5.MB(f.Bytes)
		}
		row("file", fmt.Sprintf("%s: %s, SHA-256 %s", f.Name, size, cmp.Or(f.SHA256, "unknown")))
	}
	if s.Rows > 0 {
		row("holds", fmt.Sprintf("%d episodes, %d rows", s.Episodes, s.Rows))
	}
	row("licence", s.Licence)
	if s.Note != "" {
		row("note", s.Note)
	}
	row("use", s.Use)
}
