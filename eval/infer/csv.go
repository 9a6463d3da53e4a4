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

// required lists the columns that the CSV file of an arm must have. Without a tier, which is
// the first of optional, the arm does not search. Columns named like one of Conditions are
// compared between the arms. All other columns are ignored.
var (
	required = []string{"set", "episode", "success"}
	optional = []string{"tier", "solver"}
)

// readCSV reads a header and one outcome per line, and passes each outcome to add. The
// column success contains 0, 1, true or false. All outcomes get training seed 0, since a
// file holds one arm.
func readCSV(in io.Reader, add func(stated) error) error {
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
	for n := 0; ; n++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) && n == 0 {
			return errors.New("it holds no episodes (hint: one line for each set, episode and tier)")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(0)
		o, err := columns.row(fields)
		if err == nil {
			err = add(o)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// columns holds the index of each column, -1 if the file does not have it.
type columns struct {
	set, episode, success, tier, solver, protocol int

	fields []int // of every entry of the table fields
}

// findColumns reads the header, in any order and case. It returns an error if a
// required column is missing or a known one is repeated.
func findColumns(header []string) (c columns, err error) {
	for i, h := range header {
		// Spreadsheets write a byte order mark at the start of the file.
		header[i] = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))
	}
	for _, known := range slices.Concat(Conditions(), required, optional) {
		if i := slices.Index(header, known); i >= 0 && slices.Contains(header[i+1:], known) {
			return c, fmt.Errorf("it has several columns %s (hint: keep one of them)", known)
		}
	}
	var missing []string
	for i, at := range []*int{&c.set, &c.episode, &c.success} {
		if *at = slices.Index(header, required[i]); *at < 0 {
			missing = append(missing, required[i])
		}
	}
	c.tier, c.solver = slices.Index(header, optional[0]), slices.Index(header, optional[1])
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
func (c columns) row(line []string) (o stated, err error) {
	at := func(i int) string {
		if i < 0 {
			return ""
		}
		return strings.TrimSpace(line[i])
	}
	if o.set, o.tier, o.solver = at(c.set), at(c.tier), at(c.solver); o.set == "" {
		return o, errors.New("the set has no name")
	}
	if err := cmp.Or(safefile.CheckName(o.set), safefile.CheckName(o.tier)); err != nil {
		return o, err
	}
	if o.episode, err = strconv.Atoi(at(c.episode)); err != nil || o.episode < 0 {
		return o, fmt.Errorf("the episode %q is not a non-negative integer", line[c.episode])
	}
	if o.success, err = strconv.ParseBool(at(c.success)); err != nil {
		return o, fmt.Errorf("the success %q is neither 0, 1, true nor false (hint: 1 or true is a success)", line[c.success])
	}
	values := make([]string, len(c.fields))
	for i, column := range c.fields {
		values[i] = at(column)
	}
	// The names of the first two protocols stand for values.
	for i, f := range fields {
		if f.implied != nil && values[i] == "" {
			values[i] = f.implied(at(c.protocol))
		}
	}
	o.values.cell = &values
	return o, nil
}
