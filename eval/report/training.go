package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
)

var runPattern = regexp.MustCompile(`^([a-z0-9]+)-([a-z0-9]+)-s(\d+)$`)

// runName reads the folder name of a training run.
func runName(folder string) (Training, bool) {
	m := runPattern.FindStringSubmatch(folder)
	if m == nil {
		return Training{}, false
	}
	seed, err := strconv.Atoi(m[3])
	return Training{Task: m[1], Method: m[2], Seed: seed}, err == nil
}

func (t *Training) load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the training metrics: %w", err)
	}
	defer f.Close()
	if err := t.read(f); err != nil {
		return fmt.Errorf("reading the training metrics %s: %w", path, err)
	}
	return nil
}

// read takes one JSON object a line and keeps its numbers; rows whose "split" is
// "val" are the validation's. A torn last line (a killed run) ends the log.
func (t *Training) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		raw, err := in.ReadBytes('\n')
		last := err == io.EOF
		if err != nil && !last {
			return err
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			var row map[string]any
			if err := json.Unmarshal(raw, &row); err != nil && !last {
				return fmt.Errorf("line %d: %w", line, err)
			}
			if row["split"] == "val" {
				t.Val.add(row)
			} else {
				t.Train.add(row)
			}
		}
		if last {
			return nil
		}
	}
}

// add appends the numbers of a row that has a step.
func (s *Series) add(row map[string]any) {
	step, ok := row["step"].(float64)
	if !ok {
		return
	}
	n := len(s.Steps)
	s.Steps = append(s.Steps, step)
	if s.Terms == nil {
		s.Terms = map[string][]float64{}
	}
	for k, v := range row {
		if x, isNumber := v.(float64); isNumber && k != "step" {
			s.Terms[k] = append(padded(s.Terms[k], n), x)
		}
	}
	for k := range s.Terms {
		s.Terms[k] = padded(s.Terms[k], n+1)
	}
}

// padded fills x up to n values with NaN.
func padded(x []float64, n int) []float64 {
	for len(x) < n {
		x = append(x, math.NaN())
	}
	return x
}
