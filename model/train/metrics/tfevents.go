package metrics

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// EventsFile is the name of an event file of TensorBoard, which finds such files by
// what their names contain.
const EventsFile = "events.out.tfevents.0.scalewm"

// EventsHead is what every event file of WriteEvents begins with: the version of the format.
func EventsHead() []byte {
	return record(protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "brain.Event:2"))
}

// WriteEvents writes rows as TensorBoard reads them: a scalar each number of a row, called after
// its name in metrics.jsonl and the split, as in loss/train. Since rows hold no times, each
// step counts as a second.
//
// The format (docs/sources.md#tfevents): a record a row, its length and its bytes each with a masked
// CRC-32C; in it a message Event of wall_time (1), step (2) and summary (5), which repeats
// value (1) with tag (1) and simple_value (2).
func WriteEvents(w io.Writer, rows []Row) error {
	if _, err := w.Write(EventsHead()); err != nil {
		return err
	}
	for _, row := range rows {
		numbers, err := row.numbers()
		if err != nil {
			return fmt.Errorf("step %d: %w", row.Step, err)
		}
		var summary []byte
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name+"/"+row.Split)
			value = protowire.AppendFixed32(protowire.AppendTag(value, 2, protowire.Fixed32Type), math.Float32bits(float32(numbers[name])))
			summary = protowire.AppendBytes(protowire.AppendTag(summary, 1, protowire.BytesType), value)
		}
		var event []byte
		if row.Step != 0 { // zero is what a field has that is left out
			event = protowire.AppendFixed64(protowire.AppendTag(event, 1, protowire.Fixed64Type), math.Float64bits(float64(row.Step)))
			event = protowire.AppendVarint(protowire.AppendTag(event, 2, protowire.VarintType), uint64(row.Step))
		}
		event = protowire.AppendBytes(protowire.AppendTag(event, 5, protowire.BytesType), summary)
		if _, err := w.Write(record(event)); err != nil {
			return err
		}
	}
	return nil
}

// numbers are the row's values by their names in the file.
func (r Row) numbers() (map[string]float64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	numbers := map[string]float64{}
	for name, v := range all {
		if v, ok := v.(float64); ok && name != "step" {
			numbers[name] = v
		}
	}
	return numbers, nil
}

func record(data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, masked(data))
}

// masked is the CRC-32C as TFRecord stores it, rotated and shifted, so that a checksum of
// bytes that hold checksums stays useful.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return crc>>15 | crc<<17 + 0xa282ead8
}
