package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/convert"
	"scalewm/dataset/export"
	"scalewm/dataset/hdf5"
	"scalewm/eval/words"
)

func init() {
	register(verb{name: "data", args: "info|check|convert|export F.h5", summary: "describe, verify, convert or export a data set (.h5, .npz, LeRobot, Zarr, Minari, DINO-WM, ...)",
		example: "scalewm data info tworoom.h5\nscalewm data check tworoom.h5 --json\nscalewm data check tworoom.h5 --against published\nscalewm data convert published.h5 --out ours.h5\nscalewm data convert episodes/ --out own.h5\nscalewm data export tworoom.h5 --to lerobot --out tworoom", run: runData})
}

// checkChild is the environment variable that marks the process that reads a file for
// `data check`. libhdf5 may crash on a malicious file; in a child process that is an
// error message of the parent.
const checkChild = "SCALEWM_CHECK_CHILD"

// runData runs one of four actions on data sets. Flags that only apply to one are usage
// errors with the others.
//
// info prints what the file contains. check reads all of it and prints the problems
// it finds, with exitFailed if there are any; with --against it compares instead. convert writes a new file and describes
// it; it does not resume, and removes an unfinished file when it is interrupted.
// export writes a folder, in the same way.
func runData(ctx context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	out := c.String("out", "", "convert: `file` to write; export: folder")
	frames := c.String("frames", "", "convert: `name` of the camera whose videos or pictures are the frames, if there are several")
	columns, drop := switches{}, stringList{}
	c.Var(columns, "column", "convert: call the column OLD of the source NEW, as `NEW=OLD`; may be repeated")
	c.Var(&drop, "drop", "convert: leave out the column of this `name`; may be repeated")
	fit := c.OneOf("fit", "convert: `how` to make frames square: none, crop (the centre) or letterbox (bars)", string(convert.FitNone), string(convert.FitCrop), string(convert.FitLetterbox))
	size := c.Positive("size", 0, "convert: scale frames to an edge of `n` pixels")
	actions := c.OneOf("actions", "convert: `what` the action of a row does: leaving (taken in it), leading (it led to it) or auto (as the layout has it)", string(convert.Auto), string(convert.Leaving), string(convert.Leading))
	filter := c.String("filter", "deflate", "convert: compression `filter` of the frames: deflate (readable everywhere), zstd or none")
	to := c.OneOf("against", "check: compare it with this `set` instead: published (the paper's data) or none", "none", "published")
	format := c.OneOf("to", "export: `format` of the folder: lerobot, zarr or npz", export.Formats()...)
	fps := c.Positive("fps", 10, "export --to lerobot: `rows` per second")
	task := c.String("task", "", "check --against: `name` of the task, if the file does not record it")
	pos, err := c.parse(args, 2, math.MaxInt)
	if err != nil {
		return err
	}
	if pos[0] != "convert" && len(pos) > 2 {
		return usagef("unexpected argument %q", pos[2])
	}
	// The flags of each action that others do not have.
	for _, of := range []struct {
		actions string
		flags   []string
	}{{"convert", []string{"frames", "column", "drop", "fit", "size", "actions", "filter"}}, {"export", []string{"to", "fps"}}, {"convert export", []string{"out"}}, {"check", []string{"against", "task"}}} {
		if slices.Contains(strings.Fields(of.actions), pos[0]) {
			continue
		}
		if err := c.noEffect("with data "+pos[0], of.flags...); err != nil {
			return err
		}
	}
	switch pos[0] {
	case "info":
		return dataInfo(c, pos[1], *asJSON)
	case "check":
		if *to == "published" {
			return dataAgainst(ctx, c, pos[1], *task, *asJSON)
		}
		if err := c.noEffect("without --against", "task"); err != nil {
			return err
		}
		if os.Getenv(checkChild) == "" {
			return checkInChild(ctx, c, pos[1], *asJSON)
		}
		return dataCheck(ctx, c, pos[1])
	case "convert":
		if *out == "" {
			return usagef("data convert needs --out FILE.h5")
		}
		f, err := hdf5.ParseFilter(*filter)
		if err != nil {
			return usagef("data convert: %v", err)
		}
		return dataConvert(ctx, c, convert.Job{In: pos[1:], Out: *out, Frames: *frames, Columns: columns, Drop: drop,
			Fit: convert.Fit(*fit), Size: *size, Actions: convert.Alignment(*actions), Filter: f}, *asJSON)
	case "export":
		return dataExport(ctx, c, export.Job{In: pos[1], Out: *out, To: *format, FPS: *fps}, *asJSON)
	}
	return usagef("data: unknown action %q%s (info, check, convert or export)", pos[0], words.Nearest(pos[0], []string{"info", "check", "convert", "export"}))
}

// fileInfo is the output of `data info --json`.
type fileInfo struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	Rows     int    `json:"rows"`
	Episodes int    `json:"episodes"`
	// Lengths of episodes in rows.
	MeanLength float64 `json:"mean_length"`
	MinLength  int     `json:"min_length"`
	MaxLength  int     `json:"max_length"`
	// Clips is the number of training clips: 4 frames, 5 rows apart, within an episode.
	Clips   int    `json:"clips"`
	Frames  bool   `json:"frames"`
	Storage string `json:"storage"` // filters and chunking of the frames
	// Columns are usable as data; Skipped maps the names of others to the reason.
	Columns    []fileColumn      `json:"columns"`
	Skipped    map[string]string `json:"skipped"`
	Attributes map[string]string `json:"attributes"`
	// Published says which counts are those of the published set; "" if none.
	Published string `json:"published,omitempty"`
	// Fingerprint identifies the contents: trainings and cells record it.
	Fingerprint string `json:"fingerprint"`
}

// fileColumn is a column of a fileInfo: name, type, and numbers per row.
type fileColumn struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Width int    `json:"width"`
}

// describeFile reads everything that `data info` prints. It reads frames only as far
// as the fingerprint needs them.
func describeFile(path string) (fileInfo, error) {
	f, err := recognised(path)
	if err != nil {
		return fileInfo{}, err
	}
	defer f.Close()
	st, err := os.Stat(path)
	if err != nil {
		return fileInfo{}, err
	}
	i := fileInfo{File: path, Bytes: st.Size(), Rows: f.Rows(), Episodes: len(f.Episodes()), Frames: f.FrameSize() > 0,
		Clips: len(dataset.Clips(f, 4, 5)), Storage: f.Storage(), Skipped: f.Skipped(), Attributes: f.Attrs(), Published: publishedNote(f)}
	var lens []int
	for _, e := range f.Episodes() {
		lens = append(lens, e.Len)
		i.MeanLength += float64(e.Len) / float64(i.Episodes)
	}
	// An opened file has at least one episode.
	i.MinLength, i.MaxLength = slices.Min(lens), slices.Max(lens)
	for _, c := range f.Columns() {
		i.Columns = append(i.Columns, fileColumn{c.Name, c.DType, c.Width})
	}
	i.Fingerprint, err = f.Fingerprint()
	return i, err
}

// dataInfo prints a description of a data set.
func dataInfo(c *command, path string, asJSON bool) error {
	i, err := describeFile(path)
	if err != nil {
		return err
	}
	if asJSON {
		return c.printJSON(i)
	}
	w := c.stdout
	fmt.Fprintf(w, "%s: %s\n  episodes     %d, length %d to %d, mean %.2f\n  rows         %d, %d clips of 4 frames\n",
		path, hdf5.MB(i.Bytes), i.Episodes, i.MinLength, i.MaxLength, i.MeanLength, i.Rows, i.Clips)
	fmt.Fprintf(w, "  frames       %s\n", i.Storage)
	for _, col := range i.Columns {
		fmt.Fprintf(w, "  column       %-20s %s x %d\n", col.Name, col.DType, col.Width)
	}
	printSorted(w, "  left out     %-20s %s\n", i.Skipped)
	printSorted(w, "  attribute    %-20s %s\n", i.Attributes)
	if i.Published != "" {
		fmt.Fprintf(w, "  published    %s\n", i.Published)
	}
	fmt.Fprintf(w, "  fingerprint  %s\n", i.Fingerprint)
	return nil
}

// printSorted prints the entries of a map in alphabetical order, each with a format
// of two strings.
func printSorted(w io.Writer, format string, m map[string]string) {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(w, format, oneLine(n), oneLine(m[n]))
	}
}

// oneLine escapes line breaks and tabs, so that a name or attribute in a file cannot
// imitate other lines of the output.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace

// checkResult is the output of `data check --json`, and what the child process sends
// to its parent.
type checkResult struct {
	File     string `json:"file"`
	OK       bool   `json:"ok"` // no problems
	Rows     int    `json:"rows"`
	Episodes int    `json:"episodes"`
	Frames   int    `json:"frames"`
	// Problems make the data set unfit for training. The list is limited; More is the number
	// of further ones.
	Problems []string `json:"problems"`
	More     int      `json:"more_problems"`
	// Notes are harmless peculiarities, such as columns that are left out.
	Notes []string `json:"notes"`
	// Alignment says which action leads from a row to the next; nil if other problems come first.
	Alignment *dataset.Alignment `json:"alignment,omitempty"`
	// Protection describes which kinds of damage the file's own checksums detect.
	Protection string `json:"protection"`
	Error      string `json:"error,omitempty"` // why the file could not be opened; else ""
}

// dataCheck is `data check` in the child process: it reads the entire file and prints
// a checkResult.
func dataCheck(ctx context.Context, c *command, path string) error {
	r := checkResult{File: path, Problems: []string{}, Notes: []string{}}
	f, err := recognised(path)
	if err != nil {
		r.Error = err.Error()
		return c.printJSON(r)
	}
	defer f.Close()
	p := newProgress(c.stderr, "checking")
	rep, err := dataset.Check(ctx, f, p.report)
	p.close()
	if err != nil {
		return err
	}
	// rep.Problems has a limited length; More counts the rest.
	r.OK, r.Rows, r.Episodes, r.Frames, r.More = rep.OK(), rep.Rows, rep.Episodes, rep.Frames, rep.More
	r.Problems, r.Protection, r.Alignment = append(r.Problems, rep.Problems...), f.Protection(), rep.Alignment
	r.Notes = append(r.Notes, rep.Notes...)
	for _, name := range slices.Sorted(maps.Keys(f.Skipped())) {
		r.Notes = append(r.Notes, fmt.Sprintf("%q is left out: %s", name, f.Skipped()[name]))
	}
	if note := publishedNote(f); note != "" {
		r.Notes = append(r.Notes, note)
	}
	return c.printJSON(r)
}

// recognised opens a data set, or returns an error that names its layout.
func recognised(path string) (*hdf5.File, error) {
	if err := convert.Recognise(path); err != nil {
		return nil, err
	}
	return hdf5.Open(path)
}

// checkInChild runs `data check` in a child process and reports its outcome. The
// progress bar of the child goes to the terminal directly.
func checkInChild(ctx context.Context, c *command, path string, asJSON bool) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	child := exec.CommandContext(ctx, exe, "data", "check", path)
	child.Args[0] = "scalewm" // the name in messages of the child, whatever this file is called
	child.Env = append(os.Environ(), checkChild+"=1")
	var answer, complaint bytes.Buffer
	child.Stdout, child.Stderr = &answer, &complaint
	if screen := terminal(c.stderr); screen != nil {
		child.Stderr = screen // for the child's bar
	}
	err = child.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// No complete answer means that the child crashed.
	var r checkResult
	if jsonErr := json.Unmarshal(answer.Bytes(), &r); err != nil || jsonErr != nil {
		r = checkResult{File: path, Problems: []string{}, Notes: []string{},
			Error: fmt.Sprintf("checking %s: the reader crashed (%s): the file is damaged (hint: download or make it again)", path, crashReason(err, &complaint))}
	}
	if r.Error != "" {
		if asJSON {
			if err := c.printJSON(r); err != nil {
				return err
			}
		}
		return errors.New(r.Error)
	}
	return reportCheck(c, r, asJSON)
}

// crashReason describes what ended a child: the first line that it wrote to stderr,
// else the signal or exit code.
func crashReason(err error, complaint *bytes.Buffer) string {
	// A Go program that crashes says why on its first line; stack traces follow.
	line, _, readErr := bufio.NewReader(complaint).ReadLine()
	if readErr == nil && len(line) > 0 {
		return string(line)
	}
	if err != nil {
		return err.Error()
	}
	return "no answer"
}

// reportCheck prints the result of a check. Problems are an error (exitFailed), so
// that scripts stop before training on the data set.
func reportCheck(c *command, r checkResult, asJSON bool) error {
	if asJSON {
		if err := c.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, p := range r.Problems {
			fmt.Fprintln(c.stdout, p)
		}
		if r.More > 0 {
			fmt.Fprintf(c.stdout, "and %d more\n", r.More)
		}
		for _, n := range r.Notes {
			fmt.Fprintln(c.stdout, "note:", n)
		}
	}
	if !r.OK {
		hint := " (hint: do not train on it; download or make it again)"
		if strings.Contains(r.Problems[0], "(hint: ") {
			hint = ""
		}
		return fmt.Errorf("checking %s: %d problems, the first: %s%s", r.File, len(r.Problems)+r.More, r.Problems[0], hint)
	}
	if !asJSON {
		fmt.Fprintf(c.stdout, "%s: no problems in %d episodes, %d rows, %d frames\nprotection: %s\n", r.File, r.Episodes, r.Rows, r.Frames, r.Protection)
	}
	return nil
}

// dataConvert converts data sets to our layout and describes the result. It never
// replaces a file; see outputPath for an interrupt at its end.
func dataConvert(ctx context.Context, c *command, j convert.Job, asJSON bool) error {
	if _, err := os.Lstat(j.Out); err == nil {
		return fmt.Errorf("converting %s: %s already exists (hint: remove it or choose another --out)", j.In[0], j.Out)
	}
	// From here on j.Out is known not to exist, so that its existence means success.
	outputPath.Store(&j.Out)
	p := newProgress(c.stderr, "converting")
	j.Progress, j.Note = p.report, func(text string) { fmt.Fprintln(c.stderr, "note:", text) }
	err := j.Run(ctx)
	p.close()
	if err != nil {
		return err
	}
	return dataInfo(c, j.Out, asJSON)
}
