package infer

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
)

// required lists the columns that the CSV file of an arm must have. Columns named like
// one of Conditions are compared between the arms. All other columns are ignored.
var required = []string{"set", "episode", "tier", "success"}

// loadCSV reads an arm from a CSV file of limited size.
func (a *Side) loadCSV(path string) error {
	f, err := safefile.Open(path, safefile.MaxCSV)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.readCSV(f)
}

// readCSV reads a header and one outcome per line. The column success contains 0, 1,
// true or false. All outcomes get training seed 0, since a file holds one arm.
func (a *Side) readCSV(in io.Reader) error {
	r := csv.NewReader(in)
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it is empty (hint: its first line names the columns %s)", strings.Join(required, ", "))
	}
	if err != nil {
		return err
	}
	columns, err := findColumns(header)
	if err != nil {
		return err
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(0)
		u, set, e, o, err := columns.row(fields)
		if err == nil {
			err = a.add(u, set, e, o)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	if len(a.units) == 0 {
		return errors.New("it holds no episodes (hint: one line for each set, episode and tier)")
	}
	return nil
}

// columns holds the index of each column, -1 if the file does not have it.
type columns struct {
	set, episode, tier, success, protocol int
	fields                                []int // of every entry of the table fields
}

// findColumns reads the header, in any order and case. It returns an error if a
// required column is missing or a known one is repeated.
func findColumns(header []string) (c columns, err error) {
	for i, h := range header {
		// Spreadsheets write a byte order mark at the start of the file.
		header[i] = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))
	}
	for _, known := range append(Conditions(), required...) {
		if i := slices.Index(header, known); i >= 0 && slices.Contains(header[i+1:], known) {
			return c, fmt.Errorf("it has several columns %s (hint: keep one of them)", known)
		}
	}
	var missing []string
	for i, at := range []*int{&c.set, &c.episode, &c.tier, &c.success} {
		if *at = slices.Index(header, required[i]); *at < 0 {
			missing = append(missing, required[i])
		}
	}
	if missing != nil {
		return c, fmt.Errorf("it has no column %s (hint: its first line names the columns %s)", strings.Join(missing, ", "), strings.Join(required, ", "))
	}
	c.protocol = slices.Index(header, protocolName)
	for _, f := range fields {
		at := -1
		if f.pair {
			at = slices.Index(header, f.name)
		}
		c.fields = append(c.fields, at)
	}
	return c, nil
}

// row parses one line. The CSV reader guarantees that it has as many fields as the
// header.
func (c columns) row(line []string) (u unit, set string, e int, o outcome, err error) {
	set, u.tier = strings.TrimSpace(line[c.set]), strings.TrimSpace(line[c.tier])
	if set == "" {
		return u, set, e, o, errors.New("the set has no name")
	}
	if err := cmp.Or(safefile.CheckName(set), safefile.CheckName(u.tier)); err != nil {
		return u, set, e, o, err
	}
	if e, err = strconv.Atoi(strings.TrimSpace(line[c.episode])); err != nil || e < 0 {
		return u, set, e, o, fmt.Errorf("the episode %q is not a non-negative integer", line[c.episode])
	}
	if o.success, err = strconv.ParseBool(strings.TrimSpace(line[c.success])); err != nil {
		return u, set, e, o, fmt.Errorf("the success %q is neither 0, 1, true nor false (hint: 1 or true is a success)", line[c.success])
	}
	values := make([]string, len(c.fields))
	for i, at := range c.fields {
		if at >= 0 {
			values[i] = strings.TrimSpace(line[at])
		}
	}
	// The names of the first two protocols stand for values.
	if c.protocol >= 0 {
		name := strings.TrimSpace(line[c.protocol])
		for i, f := range fields {
			if f.implied != nil && values[i] == "" {
				values[i] = f.implied(name)
			}
		}
	}
	o.values.cell = &values
	return u, set, e, o, nil
}
