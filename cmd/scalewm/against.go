package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"scalewm/dataset"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// errNothingPublished ends a comparison with a published set that does not exist
// (exitIncomplete).
var errNothingPublished = errors.New("nothing is published")

// against is the output of `data check --against published --json`.
type against struct {
	File        string               `json:"file"`
	Task        string               `json:"task"`
	Fingerprint string               `json:"fingerprint"`
	Comparison  []dataset.Comparison `json:"comparison"`
	Sets        []setComparison      `json:"sets"`
	// Notes say what could not be compared.
	Notes []string `json:"notes"`
}

// setComparison is an evaluation set drawn from the file. Hash is that of our cells; Here and
// Published are hashes as the paper's authors compute them, "" if unknown.
type setComparison struct {
	Set       string `json:"set"`
	Hash      string `json:"hash"`
	Here      string `json:"here"`
	Published string `json:"published"`
}

// dataAgainst compares a data set with the published one of its task: counts, lengths,
// moments and ranges of columns, solved starts, evaluation sets. It does not judge.
func dataAgainst(ctx context.Context, c *command, path, task string, asJSON bool) error {
	f, err := recognised(path)
	if err != nil {
		return err
	}
	defer f.Close()
	t, set, err := publishedTask(f, task)
	if err != nil {
		return fmt.Errorf("comparing %s with the published set: %w", path, err)
	}
	r := against{File: path, Task: t.Spec.Name}
	if r.Comparison, r.Notes, err = set.Compare(f, t.Spec.Qs[0]); err != nil {
		return fmt.Errorf("comparing %s with the published set: %w", path, err)
	}
	d, err := eval.NewData(f, t, results.Published())
	if err != nil {
		return err
	}
	r.Fingerprint = d.Fingerprint
	p := newProgress(c.stderr, "comparing")
	solved, starts, err := d.SolvedStarts(ctx, p.report)
	p.close()
	if err != nil {
		return err
	}
	if share := 100 * float64(solved) / float64(max(starts, 1)); set.Solved > 0 {
		r.Comparison = append(r.Comparison, dataset.Comparison{Quantity: "% of the starts solved already", Here: share, Published: set.Solved, Difference: share - set.Solved})
	} else {
		r.Notes = append(r.Notes, fmt.Sprintf("%.3f %% of the starts are solved already; the published share is unknown", share))
	}
	r.addSets(d, set)
	r.addUnknown(f, set, t.Spec.Qs[0])
	if asJSON {
		return c.printJSON(r)
	}
	return r.print(c.stdout)
}

// publishedTask returns the task of a file that has a published set: the named one, else the
// one that the file records, else the only one whose published counts the file has.
func publishedTask(f *hdf5.File, named string) (t envs.Task, set dataset.Published, err error) {
	recorded, ok := f.Attr("env")
	fits := func(s *envs.Spec) bool {
		switch {
		case named != "":
			return s.Name == named
		case ok:
			return s.Name == recorded || s.ID == recorded
		}
		return dataset.CheckTask(f, s.Name, s.ID, s.ActionDim) == nil && dataset.IsPublished(s.Name, len(f.Episodes()), f.Rows())
	}
	for _, name := range envs.Names() {
		if t, err = envs.Lookup(name); err != nil || !fits(t.Spec) {
			continue
		}
		if set, ok = dataset.PublishedSet(name); !ok {
			return t, set, fmt.Errorf("%w of the task %s (hint: `scalewm sources` lists what is)", errNothingPublished, name)
		}
		return t, set, nil
	}
	switch {
	case named != "":
		return t, set, usagef("data check: no task named %q%s", named, words.Nearest(named, envs.Names()))
	case ok:
		return t, set, fmt.Errorf("%w of the task %q, which the file records (hint: `scalewm sources` lists what is)", errNothingPublished, recorded)
	}
	return t, set, usagef("data check: the file does not say its task and has the counts of no published set (hint: --task NAME)")
}

// addSets draws the published evaluation sets from the file.
func (r *against) addSets(d *eval.Data, published dataset.Published) {
	for i, name := range eval.SetNames() {
		s, err := d.Set(name, 100)
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("no evaluation sets: %v", err))
			return
		}
		seed := 101 + i
		r.Sets = append(r.Sets, setComparison{name, s.Hash, eval.AuthorsHash(seed, results.Published().GoalOffset, s.Starts), published.Sets[seed]})
	}
}

// addUnknown notes the columns of which no figure is published.
func (r *against) addUnknown(f *hdf5.File, published dataset.Published, q envs.Q) {
	var names []string
	for _, c := range f.Columns() {
		if !hdf5.IsIndex(c.Name) && !slices.ContainsFunc(published.Figures, func(x dataset.Figure) bool {
			return x.Of == c.Name || x.Of == "q" && slices.Contains(q.Columns, c.Name)
		}) {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		r.Notes = append(r.Notes, "nothing is published of the columns "+strings.Join(names, ", "))
	}
}

func (r *against) print(out io.Writer) error {
	fmt.Fprintf(out, "%s against the published set of %s\n", r.File, r.Task)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "quantity\there\tpublished\tdifference")
	for _, x := range r.Comparison {
		fmt.Fprintf(w, "%s\t%.7g\t%.7g\t%+.6g\n", x.Quantity, x.Here, x.Published, x.Difference)
	}
	for _, s := range r.Sets {
		verdict := "equal"
		if s.Published == "" {
			verdict, s.Published = "", "unknown"
		} else if s.Published != s.Here {
			verdict = "different"
		}
		fmt.Fprintf(w, "evaluation set %s (here %s)\t%s\t%s\t%s\n", s.Set, s.Hash, s.Here, s.Published, verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the comparison: %w", err)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(out, "note:", oneLine(n))
	}
	fmt.Fprintf(out, "fingerprint: %s\n", r.Fingerprint)
	return nil
}

// publishedNote describes a file that has the counts of a published set or, if it records
// its task, one of them; else "".
func publishedNote(f *hdf5.File) string {
	_, set, err := publishedTask(f, "")
	if err != nil {
		return ""
	}
	note := set.CountsNote(len(f.Episodes()), f.Rows())
	if _, ours := f.Attr(collect.SpecAttr); ours && note != "" {
		note += "; scalewm collected it"
	}
	return note
}
