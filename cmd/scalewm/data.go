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
	"scalewm/dataset/hdf5"
	"scalewm/eval/pipeline"
)

func init() {
	register(verb{name: "data", args: "info|check|convert F.h5", summary: "look at or verify a data set, ours or a published one, or make one of .npz episodes, films or a LeRobot set",
		example: "scalewm data info tworoom.h5\nscalewm data check tworoom.h5 --json\nscalewm data convert published.h5 --out ours.h5\nscalewm data convert episodes/ --out own.h5", run: runData})
}

// checkChild in the environment marks the process that reads a file for its
// parent, so that a crash of libhdf5 on a hostile file is the parent's one line.
const checkChild = "SCALEWM_CHECK_CHILD"

func runData(ctx context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print one JSON object")
	out := c.String("out", "", "convert: the `file` to write")
	frames := c.String("frames", "", "convert: which camera's `films` or pictures are the frames, where a folder has several")
	filter := c.String("filter", "deflate", "convert: `name` of the frames' filter: deflate (opens everywhere), zstd or none")
	pos, err := c.parse(args, 2, math.MaxInt)
	if err != nil {
		return err
	}
	if pos[0] != "convert" {
		if len(pos) > 2 {
			return usagef("unexpected argument %q", pos[2])
		}
		if err := c.meaningless("to data "+pos[0], "out", "frames", "filter"); err != nil {
			return err
		}
	}
	switch pos[0] {
	case "info":
		return dataInfo(c, pos[1], *asJSON)
	case "check":
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
		return dataConvert(ctx, c, convert.Job{In: pos[1:], Out: *out, Frames: *frames, Filter: f}, *asJSON)
	}
	return usagef("data: unknown action %q%s (info, check or convert)", pos[0], pipeline.Nearest(pos[0], []string{"info", "check", "convert"}))
}

// fileInfo is what `data info --json` prints.
type fileInfo struct {
	File        string            `json:"file"`
	Bytes       int64             `json:"bytes"`
	Rows        int               `json:"rows"`
	Episodes    int               `json:"episodes"`
	MeanLength  float64           `json:"mean_length"`
	MinLength   int               `json:"min_length"`
	MaxLength   int               `json:"max_length"`
	Clips       int               `json:"clips"` // of 4 frames, 5 rows apart
	Frames      bool              `json:"frames"`
	Storage     string            `json:"storage"`
	Columns     []fileColumn      `json:"columns"`
	Skipped     map[string]string `json:"skipped"`
	Attributes  map[string]string `json:"attributes"`
	Fingerprint string            `json:"fingerprint"`
}

type fileColumn struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Width int    `json:"width"`
}

func describeFile(path string) (fileInfo, error) {
	f, err := hdf5.Open(path)
	if err != nil {
		return fileInfo{}, err
	}
	defer f.Close()
	st, err := os.Stat(path)
	if err != nil {
		return fileInfo{}, err
	}
	i := fileInfo{File: path, Bytes: st.Size(), Rows: f.Rows(), Episodes: len(f.Episodes()), Frames: f.FrameSize() > 0,
		Clips: len(dataset.Clips(f, 4, 5)), Storage: f.Storage(), Skipped: f.Skipped(), Attributes: f.Attrs()}
	var lens []int
	for _, e := range f.Episodes() {
		lens = append(lens, e.Len)
		i.MeanLength += float64(e.Len) / float64(i.Episodes)
	}
	i.MinLength, i.MaxLength = slices.Min(lens), slices.Max(lens)
	for _, c := range f.Columns() {
		i.Columns = append(i.Columns, fileColumn{c.Name, c.DType, c.Width})
	}
	i.Fingerprint, err = f.Fingerprint()
	return i, err
}

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
	fmt.Fprintf(w, "  fingerprint  %s\n", i.Fingerprint)
	return nil
}

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

// oneLine keeps text of a file from looking like lines of ours.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace

// checkResult is what `data check --json` prints, and what the child hands to its parent.
type checkResult struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Rows     int      `json:"rows"`
	Episodes int      `json:"episodes"`
	Frames   int      `json:"frames"`
	Problems []string `json:"problems"`
	More     int      `json:"more_problems"`
	Notes    []string `json:"notes"`
	// Protection says which damage the file's own checksums show.
	Protection string `json:"protection"`
	Error      string `json:"error,omitempty"` // the file could not be opened
}

// dataCheck is the child: it reads everything and prints one JSON object.
func dataCheck(ctx context.Context, c *command, path string) error {
	r := checkResult{File: path, Problems: []string{}, Notes: []string{}}
	f, err := hdf5.Open(path)
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
	r.OK, r.Rows, r.Episodes, r.Frames, r.More = rep.OK(), rep.Rows, rep.Episodes, rep.Frames, rep.More
	r.Problems, r.Protection = append(r.Problems, rep.Problems...), f.Protection()
	r.Notes = append(r.Notes, rep.Notes...)
	for _, name := range slices.Sorted(maps.Keys(f.Skipped())) {
		r.Notes = append(r.Notes, fmt.Sprintf("%q is left out: %s", name, f.Skipped()[name]))
	}
	return c.printJSON(r)
}

// checkInChild runs the check in a process of its own and reports its outcome.
func checkInChild(ctx context.Context, c *command, path string, asJSON bool) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	child := exec.CommandContext(ctx, exe, "data", "check", path)
	child.Args[0] = "scalewm"
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
	var r checkResult
	if jsonErr := json.Unmarshal(answer.Bytes(), &r); err != nil || jsonErr != nil {
		r = checkResult{File: path, Problems: []string{}, Notes: []string{},
			Error: fmt.Sprintf("checking %s: the reader crashed (%s): the file is damaged (hint: fetch or make it again)", path, crash(err, &complaint))}
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

// crash names what ended a child: the signal, or the first line of its complaint.
func crash(err error, complaint *bytes.Buffer) string {
	line, _, readErr := bufio.NewReader(complaint).ReadLine()
	if readErr == nil && len(line) > 0 {
		return string(line)
	}
	if err != nil {
		return err.Error()
	}
	return "no answer"
}

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
		return fmt.Errorf("checking %s: %d problems, the first: %s (hint: training on it would be wrong; fetch or make it again)", r.File, len(r.Problems)+r.More, r.Problems[0])
	}
	if !asJSON {
		fmt.Fprintf(c.stdout, "%s: nothing wrong in %d episodes, %d rows, %d frames\nprotection: %s\n", r.File, r.Episodes, r.Rows, r.Frames, r.Protection)
	}
	return nil
}

func dataConvert(ctx context.Context, c *command, j convert.Job, asJSON bool) error {
	if _, err := os.Lstat(j.Out); err == nil {
		return fmt.Errorf("converting %s: %s is there already (hint: remove it or choose another --out)", j.In[0], j.Out)
	}
	result.Store(&j.Out)
	p := newProgress(c.stderr, "converting")
	j.Progress, j.Note = p.report, func(text string) { fmt.Fprintln(c.stderr, "note:", text) }
	err := j.Run(ctx)
	p.close()
	if err != nil {
		return err
	}
	return dataInfo(c, j.Out, asJSON)
}
